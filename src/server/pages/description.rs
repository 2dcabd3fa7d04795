//! A lock, a semaphore or a latch as all coordinators together know it. The store has its holders
//! and its queue; since when, and who else waits, only the coordinators of the sessions know.

use std::{cmp::Reverse, collections::HashMap};

use lockkeeper_coordinator::Mode;
use serde_json::Value;

/// Waiters that are listed; the others are only counted.
const LISTED_MAX: usize = 1000;

/// What identifies a holder or a waiter.
type Key = (String, String, String);

/// A description with what another coordinator knows besides.
pub(super) fn with(mut own: Value, other: Value) -> Value {
    let Value::Object(mut other) = other else {
        return own;
    };
    let mut take = |list: &str| match other.remove(list) {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    };
    let (holders, waiters) = (take("holders"), take("waiters"));
    let (queued, waiters): (Vec<_>, Vec<_>) = waiters.into_iter().partition(is_queued);
    let count = |it: &Value| it.as_u64().unwrap_or_default();
    // The queue is in the store, so both have counted it.
    let counted = other.get("waiterCount").map(count).unwrap_or_default();
    let more = match (queued.len() as u64, waiters.is_empty()) {
        (1.., true) => 0,
        (queued, _) => counted.saturating_sub(queued),
    };
    own["waiterCount"] = (count(&own["waiterCount"]) + more).into();
    if let Some(known) = own["holders"].as_array_mut() {
        complete(known, holders);
    }
    if let Some(known) = own["waiters"].as_array_mut() {
        complete(known, queued);
        known.extend(waiters);
        // Those in the queue keep their places.
        known.sort_by_key(|it| (!is_queued(it), Reverse(waited(it))));
        known.truncate(LISTED_MAX);
    }
    own
}

/// Adds to entries what only the other coordinator knows of them.
fn complete(known: &mut [Value], others: Vec<Value>) {
    let mut others: HashMap<Key, Value> = others.into_iter().map(|it| (key(&it), it)).collect();
    for entry in known {
        let Some(Value::Object(other)) = others.remove(&key(entry)) else {
            continue;
        };
        for (field, value) in other {
            if entry[&field].is_null() || entry[&field] == "" {
                entry[&field] = value;
            }
        }
    }
}

fn key(it: &Value) -> Key {
    let text = |field: &str| it[field].as_str().unwrap_or_default().to_owned();
    (text("sessionDigest"), text("owner"), text("mode"))
}

fn is_queued(waiter: &Value) -> bool {
    waiter["mode"] == Mode::Fair.name()
}

/// How long a waiter has waited. The store does not know it of those in its queue.
fn waited(waiter: &Value) -> u64 {
    let known = waiter["waitingForMs"].as_u64();
    known.filter(|_| !is_queued(waiter)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waiter(owner: &str, mode: &str, since: Option<u64>) -> Value {
        json!({ "sessionDigest": owner, "owner": "0", "mode": mode, "waitingForMs": since })
    }

    #[test]
    fn who_else_waits_is_added_and_what_the_store_does_not_know() {
        let holder = |client: &str, ms: Option<u64>| {
            let holder = json!({ "sessionDigest": "h", "owner": "0", "mode": "exclusive" });
            let mut holder = holder;
            (holder["clientName"], holder["heldForMs"]) = (client.into(), ms.into());
            holder
        };
        let own = json!({
            "holders": [holder("", None)],
            "waiters": [waiter("q", "fair", None), waiter("a", "exclusive", Some(5))],
            "waiterCount": 2,
        });
        let other = json!({
            "holders": [holder("h.sh", Some(7))],
            "waiters": [waiter("q", "fair", Some(9)), waiter("b", "exclusive", Some(8))],
            "waiterCount": 2,
        });
        let whole = with(own, other);
        assert_eq!(whole["holders"], json!([holder("h.sh", Some(7))]));
        let waiters = [
            waiter("q", "fair", Some(9)),
            waiter("b", "exclusive", Some(8)),
            waiter("a", "exclusive", Some(5)),
        ];
        assert_eq!(whole["waiters"], json!(waiters));
        assert_eq!(whole["waiterCount"], 3);
    }

    #[test]
    fn of_many_waiters_only_some_are_listed() {
        let many = |name: &str| {
            let all = (0..LISTED_MAX).map(|it| waiter(&format!("{name}{it}"), "exclusive", None));
            json!({ "waiters": all.collect::<Vec<_>>(), "waiterCount": LISTED_MAX })
        };
        let whole = with(many("a"), many("b"));
        assert_eq!(whole["waiters"].as_array().unwrap().len(), LISTED_MAX);
        assert_eq!(whole["waiterCount"], 2 * LISTED_MAX);
    }

    #[test]
    fn a_queue_that_is_longer_than_its_list_is_counted_once() {
        let queue = || json!({ "waiters": [waiter("q", "fair", None)], "waiterCount": 5000 });
        assert_eq!(with(queue(), queue())["waiterCount"], 5000);
        let latch = || json!({ "count": 1, "waiterCount": 2 });
        assert_eq!(with(latch(), latch())["waiterCount"], 4);
    }
}
