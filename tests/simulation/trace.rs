//! Replays a run through the model of the protocol in `model/`, so that the code and the model
//! cannot come apart: every change of a lock in the store has to be a step of the model.

use std::collections::HashMap;

use lockkeeper_model::session::trace::{Seen, Step, Trace};

use super::{
    checker::Violation,
    history::{Event, Holder, Name, Share, Told, What},
    plan::{Family, Plan},
};

/// What a run was replayed as.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// Locks whose runs the model can follow.
    pub(crate) traces: u64,
    /// Steps of the store, and answers to clients.
    pub(crate) steps: u64,
    /// What the model does not do.
    pub(crate) violations: Vec<Violation>,
}

/// Replays what became of each lock with one holder. Programs that use the store without
/// coordinators raise no tokens, so the model cannot follow locks that they take.
pub(crate) fn replay(events: &[Event], plan: &Plan) -> Replayed {
    let mut replayed = Replayed::default();
    for (name, family) in plan.families.iter().enumerate() {
        let is_foreign = |event: &Event| match &event.what {
            What::Foreign(_, of, _) => *of == name,
            What::Stored { name: of, by, .. } => *of == name && by.starts_with("foreign"),
            _ => false,
        };
        if *family != Family::ReadWrite && !events.iter().any(is_foreign) {
            follow(events, name, plan, &mut replayed);
        }
    }
    replayed
}

fn follow(events: &[Event], name: Name, plan: &Plan, replayed: &mut Replayed) {
    let lease_max = u64::try_from(plan.lease_max().as_millis()).unwrap_or(u64::MAX);
    let mut trace = Trace::new(lease_max);
    let mut asked = HashMap::new();
    replayed.traces += 1;
    for event in events {
        let at = event.at;
        let taken = match &event.what {
            What::Stored {
                name: of,
                token,
                by: "by hand",
                ..
            } if *of == name => {
                trace.lost(*token);
                continue;
            }
            What::Stored {
                name: of,
                shares,
                token,
                by,
                ..
            } if *of == name => held(shares).and_then(|held| {
                let counter = *token;
                trace.stored(at, step(by), Seen { held, counter })
            }),
            What::Invoked {
                op,
                holder,
                name: of,
                ..
            } if *of == name => {
                asked.insert(*op, *holder);
                continue;
            }
            What::Told(op, Told::Granted(seen) | Told::Renewed(seen)) => match asked.get(op) {
                Some(holder) => trace.told(at, *holder, seen.token, seen.safe_until),
                None => continue,
            },
            What::Told(op, Told::Unknown) => {
                if let Some(holder) = asked.get(op) {
                    trace.unanswered(*holder);
                }
                continue;
            }
            What::Kept(holder, of, seen) if *of == name => {
                trace.told(at, *holder, seen.token, seen.safe_until)
            }
            _ => continue,
        };
        replayed.steps += 1;
        if let Err(wrong) = taken {
            let rule = format!("model: lock {name}: {wrong}");
            replayed.violations.push(Violation { at, rule });
            return;
        }
    }
}

/// What the model calls a script or a command.
fn step(by: &str) -> Step {
    match by {
        "lock_acquire" | "fair_acquire" | "multi_acquire" => Step::Acquire,
        "create" => Step::Create,
        "add_and_look" | "lock_token" | "lock_raise" => Step::Raise,
        "lock_hand_on" | "grant_hand_on" => Step::HandOver,
        "lock_renew" => Step::Renew,
        "lock_release" | "fair_release" | "multi_release" | "remove_and_publish" => Step::Release,
        "lock_undo" | "fair_undo" | "multi_undo" | "session_end" => Step::Undo,
        _ => Step::Other,
    }
}

/// The one holder.
fn held(shares: &[Share]) -> Result<Option<(Holder, u8, u64)>, String> {
    match shares {
        [] => Ok(None),
        [
            Share {
                holder,
                count,
                until: Some(until),
            },
        ] => match u8::try_from(*count) {
            Ok(holds) => Ok(Some((*holder, holds, *until))),
            Err(_) => Err(format!("{holder} has {count} holds")),
        },
        _ => Err(format!(
            "several holders, or one without an end: {shares:?}"
        )),
    }
}
