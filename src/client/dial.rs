//! How bytes reach a coordinator.

use std::io;

use futures::future::BoxFuture;

use crate::Address;

/// A connection to a coordinator, as bytes.
pub trait Wire: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static {}

impl<T: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static> Wire for T {}

/// A connection that is being made.
pub type Dialled = BoxFuture<'static, io::Result<Box<dyn Wire>>>;

/// Makes connections.
pub(crate) type Dial = dyn Fn(Address) -> Dialled + Send + Sync;
