//! The waiting operations of a session, and the field that identifies them.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The field that identifies an operation of a stream.
pub(in crate::grpc) const OP_ID: &str = "op_id";

/// Waiting operations of the stream, by `op_id`, to be cancelled.
pub(in crate::grpc) type Waits = Arc<Mutex<HashMap<u64, CancellationToken>>>;
