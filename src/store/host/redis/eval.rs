//! One evaluation on one connection.

use tokio::time::Instant;

use super::{
    link::Live,
    reply,
    resp::{begin, put_word},
};
use crate::host::{Call, HostError, Value};

/// Runs a script by its hash, or by its text if the server does not have it, which also loads it.
/// Never sends anything twice otherwise.
pub(super) async fn evaluate(
    live: &Live,
    call: &Call,
    deadline: Instant,
) -> Result<Value, HostError> {
    match live.call(deadline, |out| by_hash(out, call)).await {
        Err(error) if reply::is_unknown_script(&error) => {
            // Boxed, as it is rare: every evaluation would carry its state otherwise.
            let answer = Box::pin(live.call(deadline, |out| by_text(out, call)));
            reply::value(answer.await?)
        }
        answer => reply::value(answer?),
    }
}

/// The same on a node that a slot is being moved to.
pub(super) async fn evaluate_asking(
    live: &Live,
    call: &Call,
    deadline: Instant,
) -> Result<Value, HostError> {
    match live.call_asking(deadline, |out| by_hash(out, call)).await {
        Err(error) if reply::is_unknown_script(&error) => {
            let answer = live.call_asking(deadline, |out| by_text(out, call));
            reply::value(answer.await?)
        }
        answer => reply::value(answer?),
    }
}

fn by_hash(out: &mut Vec<u8>, call: &Call) {
    put_call(out, "EVALSHA", call.script.sha1(), call);
}

fn by_text(out: &mut Vec<u8>, call: &Call) {
    tracing::debug!(script = call.script.name, "loading");
    put_call(out, "EVAL", call.script.source(), call);
}

fn put_call(out: &mut Vec<u8>, command: &str, script: &str, call: &Call) {
    begin(out, 3 + call.keys.len() + call.args.len());
    put_word(out, command.as_bytes());
    put_word(out, script.as_bytes());
    put_word(out, itoa::Buffer::new().format(call.keys.len()).as_bytes());
    for word in call.keys.iter().chain(&call.args) {
        put_word(out, word);
    }
}
