//! Fencing tokens: one grant, one token; and whatever was granted later has a larger one. Readers
//! have that of the last writer.

use std::collections::BTreeMap;

use lockkeeper_store::script::Mode;
use lockkeeper_testkit::checker;

use super::{Violation, violation};
use crate::history::{Event, Holder, Kind, Millis, Name, Op, Told, What};

/// The scripts that give a new holder its token, unless it reads. `grant_hand_on` is none of them:
/// what it counts to need not be the token.
const GIVE_TOKENS: [&str; 6] = [
    "lock_acquire",
    "fair_acquire",
    "write_acquire",
    "multi_acquire",
    "lock_hand_on",
    "read_hand_on",
];

type Grant = checker::Grant<Holder, Millis>;

pub(super) fn check(events: &[Event]) -> Vec<Violation> {
    let mut violations = in_the_store(events);
    violations.extend(repeats(events));
    for (name, grants) in grants(events) {
        violations.extend(of_the_last_writer(events, name, &grants));
        let writes = grants.into_iter().filter(|grant| !reads(grant));
        let writes: Vec<_> = writes.collect();
        let twins = checker::twins(&writes).into_iter().map(|[first, it]| {
            let rule = format!(
                "token: {} and {} have {} for lock {name}",
                first.holder, it.holder, it.token
            );
            violation(it.told, rule)
        });
        violations.extend(twins);
        let shrunk = checker::shrunk(&writes).into_iter().map(|[before, it]| {
            let rule = format!(
                "token: {} was granted lock {name} with {} after {}",
                it.holder, it.token, before.token
            );
            violation(it.told, rule)
        });
        violations.extend(shrunk);
    }
    violations
}

/// The token that a new holder gets is larger than any before, except for steps of the counter that
/// were taken back: nobody has seen a token of those.
fn in_the_store(events: &[Event]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut seen: BTreeMap<Name, (Vec<Holder>, u64, u64)> = BTreeMap::new();
    for event in events {
        let What::Stored {
            name,
            shares,
            token,
            by,
            ..
        } = &event.what
        else {
            continue;
        };
        let (before, largest, step) = seen.entry(*name).or_default();
        if step != token && *by != "lock_token" {
            *largest = (*largest).max(*step);
        }
        let mut owners = shares.iter().map(|share| share.holder);
        let is_new = owners.any(|it| it.mode != Mode::Read && !before.contains(&it));
        if is_new && GIVE_TOKENS.contains(by) && token <= largest {
            let rule = format!("token: lock {name} was granted anew with {token} after {largest}");
            violations.push(violation(event.at, rule));
        }
        if !matches!(*by, "create" | "add_and_look" | "remove_and_publish") {
            *largest = (*largest).max(*token);
        }
        *step = *token;
        *before = shares.iter().map(|share| share.holder).collect();
    }
    violations
}

/// A repeat gets the first answer, as long as the store has it.
fn repeats(events: &[Event]) -> Vec<Violation> {
    let mut asked: BTreeMap<Op, (Op, Name, Kind)> = BTreeMap::new();
    let mut answers: BTreeMap<Op, (Name, Option<u64>)> = BTreeMap::new();
    let mut violations = Vec::new();
    for event in events {
        match &event.what {
            What::Invoked {
                op,
                name,
                kind,
                repeats,
                ..
            } => {
                asked.insert(*op, (repeats.unwrap_or(*op), *name, *kind));
            }
            What::Told(op, told) => {
                let Some((first, name, kind)) = asked.get(op).copied() else {
                    continue;
                };
                let answer = match told {
                    Told::Granted(seen) => Some(seen.token),
                    Told::Released(left) => Some(u64::from(*left)),
                    // Not being the owner is no answer that is kept; but it is the wrong one after
                    // another.
                    Told::NotOwner if kind == Kind::Release && answers.contains_key(&first) => None,
                    _ => continue,
                };
                let (_, before) = *answers.entry(first).or_insert((name, answer));
                if before != answer {
                    let rule = format!("repeat: #{op} got {answer:?}, but #{first} got {before:?}");
                    violations.push(violation(event.at, rule));
                }
            }
            // Answers on their way are of before it.
            What::Forced(name) => {
                answers.retain(|_, (of, _)| of != name);
                asked.retain(|_, (_, of, _)| of != name);
            }
            _ => {}
        }
    }
    violations
}

fn grants(events: &[Event]) -> BTreeMap<Name, Vec<Grant>> {
    let mut asked: BTreeMap<Op, (Holder, Name, Millis)> = BTreeMap::new();
    let mut grants: BTreeMap<Name, Vec<Grant>> = BTreeMap::new();
    for event in events {
        match &event.what {
            What::Invoked {
                op, holder, name, ..
            } => {
                asked.insert(*op, (*holder, *name, event.at));
            }
            What::Told(op, Told::Granted(seen)) => {
                if let Some((holder, name, asked)) = asked.get(op).copied() {
                    grants.entry(name).or_default().push(Grant {
                        token: seen.token,
                        holder,
                        asked,
                        told: event.at,
                    });
                }
            }
            _ => {}
        }
    }
    grants
}

/// A reader's token is the counter as it stood at some time between question and answer. The answer
/// to a repeat has the counter of now too.
fn of_the_last_writer(events: &[Event], name: Name, grants: &[Grant]) -> Vec<Violation> {
    let mut counter: Vec<(Millis, u64)> = vec![(0, 0)];
    for event in events {
        match &event.what {
            What::Stored {
                name: of, token, ..
            } if *of == name => counter.push((event.at, *token)),
            _ => {}
        }
    }
    let wrong = |grant: &&Grant| {
        let after = counter.partition_point(|(at, _)| *at <= grant.told);
        let known = counter[..after].iter().rev();
        let mut known = known.scan(false, |before, (at, token)| {
            (!std::mem::replace(before, *at < grant.asked)).then_some(*token)
        });
        reads(grant) && !known.any(|token| token == grant.token)
    };
    let grants = grants.iter().filter(wrong);
    grants
        .map(|grant| {
            let rule = format!(
                "token: {} reads lock {name} with {}, which is not the last writer's",
                grant.holder, grant.token
            );
            violation(grant.told, rule)
        })
        .collect()
}

fn reads(grant: &Grant) -> bool {
    grant.holder.mode == Mode::Read
}
