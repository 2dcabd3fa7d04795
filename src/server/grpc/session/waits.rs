//! The operations of a session that wait, and what names them.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The field that tells a stream's operations apart.
pub(in crate::grpc) const OP_ID: &str = "op_id";

/// Waiting operations of the stream, by `op_id`, to be cancelled.
pub(in crate::grpc) type Waits = Arc<Mutex<HashMap<u64, CancellationToken>>>;
