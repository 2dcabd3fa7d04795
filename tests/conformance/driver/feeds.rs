//! What the driver follows: elections, and locks.

use lockkeeper_client::{Client, LockEvent, Observed};
use serde_json::{Value, json};

use crate::wire::{Command, Failure, print};

/// Tells what happens until the command is cancelled, or waits until a lock is free.
pub(crate) async fn follow(client: &Client, command: &Command) -> Result<Value, Failure> {
    match command.action.as_str() {
        "observe" => {
            let mut observer = client.observe(&command.name, 0);
            loop {
                tell(command, term(observer.next().await?));
            }
        }
        "watch_lock" => {
            let mut watch = client.watch_lock(&command.name);
            loop {
                tell(command, seen(&watch.next().await?));
            }
        }
        _ => {
            client.await_free(&command.name, command.wait()).await?;
            Ok(json!({}))
        }
    }
}

fn tell(command: &Command, mut event: Value) {
    event["event"] = json!("told");
    event["feed"] = json!(command.feed);
    print(&event);
}

fn term(event: Observed) -> Value {
    match event {
        Observed::Leader(it) => json!({
            "what": "leader", "value": it.value, "revision": it.revision.to_string(),
            "fencing_token": it.term.to_string(),
        }),
        Observed::NoLeader(_) => json!({ "what": "no_leader" }),
        Observed::Missed(_) => json!({ "what": "missed" }),
    }
}

fn seen(event: &LockEvent) -> Value {
    let with_token =
        |what: &str, token: u64| json!({ "what": what, "fencing_token": token.to_string() });
    match event {
        LockEvent::State(_) => json!({ "what": "state" }),
        LockEvent::Granted(it) => with_token("granted", it.fencing_token),
        LockEvent::Ended(it) => with_token("ended", it.fencing_token),
        LockEvent::Free(_) => json!({ "what": "free" }),
        LockEvent::Waiters(_) => json!({ "what": "waiters" }),
        LockEvent::Gap(_) => json!({ "what": "gap" }),
    }
}
