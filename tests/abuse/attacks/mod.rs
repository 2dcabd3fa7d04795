//! The attacks. Each returns what it did, or what must not have happened to it.

pub(crate) mod connections;
pub(crate) mod http2;
pub(crate) mod locks;
pub(crate) mod logs;
pub(crate) mod permits;
pub(crate) mod sessions;
pub(crate) mod store;
pub(crate) mod strangers;
pub(crate) mod watchers;

use futures::future::BoxFuture;

use crate::target::Target;

/// What an attack did, or how it succeeded.
pub(crate) type Did = Result<String, String>;

/// An attack, which takes as long as the form says once it has what it needs.
pub(crate) type Attack = fn(Target) -> BoxFuture<'static, Did>;
