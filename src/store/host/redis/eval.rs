//! One evaluation on one connection.

use deadpool_redis::redis::Cmd;
use tokio::time::Instant;

use super::{link::Live, reply};
use crate::host::{Call, HostError, Value};

/// Runs a script by its hash, or by its text if the server does not have it, which also loads it.
/// Never sends anything twice otherwise.
pub(super) async fn evaluate(
    live: &Live,
    call: &Call,
    deadline: Instant,
) -> Result<Value, HostError> {
    let by_hash = command("EVALSHA", call.script.sha1(), call);
    match live.call(&by_hash, deadline).await {
        Err(error) if reply::is_unknown_script(&error) => {
            let by_text = by_text(call);
            // Boxed, as it is rare: every evaluation would carry its state otherwise.
            reply::value(Box::pin(live.call(&by_text, deadline)).await?)
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
    let by_hash = command("EVALSHA", call.script.sha1(), call);
    match live.call_asking(&by_hash, deadline).await {
        Err(error) if reply::is_unknown_script(&error) => {
            let by_text = by_text(call);
            reply::value(live.call_asking(&by_text, deadline).await?)
        }
        answer => reply::value(answer?),
    }
}

fn by_text(call: &Call) -> Cmd {
    tracing::debug!(script = call.script.name, "loading");
    command("EVAL", call.script.source(), call)
}

fn command(name: &str, script: &str, call: &Call) -> Cmd {
    let count = 3 + call.keys.len() + call.args.len();
    let size = name.len() + script.len() + call.keys.size() + call.args.size();
    let mut command = Cmd::with_capacity(count, size);
    command.arg(name).arg(script).arg(call.keys.len());
    for word in call.keys.iter().chain(&call.args) {
        command.arg(word);
    }
    command
}
