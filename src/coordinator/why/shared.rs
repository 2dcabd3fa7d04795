//! How waits are written for other coordinators.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{Mode, SharedWaits};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    types::{Goal, Limits, LockName},
    why::wait::{Party, Wait, Waits},
};

#[derive(Debug, Deserialize, Serialize)]
struct Page {
    coordinator: String,
    client_name: String,
    complete: bool,
    waits: Vec<Line>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Line {
    ticket: u64,
    /// Within the session.
    owner: String,
    name: String,
    goal: String,
    waited_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    began_ms: Option<u64>,
    #[serde(default)]
    ends_on_deadlock: bool,
}

/// The waits of a party of this coordinator, as others read them.
pub(crate) fn write(coordinator: &str, waits: &Waits) -> String {
    let lines = waits.all.iter().map(|wait| Line {
        ticket: wait.id.1,
        owner: wait.owner.label.as_ref().to_owned(),
        name: wait.name.public().to_owned(),
        goal: goal_name(wait.goal).to_owned(),
        waited_ms: millis(wait.since.elapsed()),
        began_ms: wait.began,
        ends_on_deadlock: wait.ends_on_deadlock,
    });
    let page = Page {
        coordinator: coordinator.to_owned(),
        client_name: waits.client_name.clone(),
        complete: waits.complete,
        waits: lines.collect(),
    };
    serde_json::to_string(&page).expect("text and numbers become JSON")
}

/// The waits of a party of another coordinator, which the store was asked for at `asked_at`. None
/// if another program wrote them; what a newer coordinator added is left out.
pub(crate) fn read(
    party: &Party,
    shared: &SharedWaits,
    asked_at: Instant,
    limits: &Limits,
) -> Option<Waits> {
    let page: Page = serde_json::from_slice(&shared.waits).ok()?;
    let alive_at = asked_at.checked_sub(shared.age)?;
    let (coordinator, count) = (Arc::from(page.coordinator), page.waits.len());
    let lines = page.waits.into_iter().filter_map(|line| {
        Some(Wait {
            id: (Arc::clone(&coordinator), line.ticket),
            owner: party.owner(&line.owner),
            name: LockName::parse(&line.name, limits).ok()?,
            goal: goal_of(&line.goal)?,
            since: alive_at.checked_sub(Duration::from_millis(line.waited_ms))?,
            began: line.began_ms,
            ends_on_deadlock: line.ends_on_deadlock,
        })
    });
    let waits: Vec<_> = lines.collect();
    Some(Waits {
        client_name: page.client_name,
        complete: page.complete && waits.len() == count,
        all: waits,
        alive_at,
    })
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

const GOALS: [(Goal, &str); 5] = [
    (Goal::Lock(Mode::Exclusive), "exclusive"),
    (Goal::Lock(Mode::Fair), "fair"),
    (Goal::Lock(Mode::Read), "read"),
    (Goal::Lock(Mode::Write), "write"),
    (Goal::Permits, "permits"),
];

fn goal_name(goal: Goal) -> &'static str {
    let known = GOALS.iter().find(|(known, _)| *known == goal);
    known.map_or("", |(_, name)| name)
}

fn goal_of(name: &str) -> Option<Goal> {
    let known = GOALS.iter().find(|(_, known)| *known == name);
    known.map(|(goal, _)| *goal)
}
