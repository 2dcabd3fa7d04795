//! The last events of the coordinator, as JSON.

use axum::{
    Json,
    extract::{Query, State},
};
use lockkeeper_coordinator::Recorded;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Admin,
    failure::Failure,
    guard::Caller,
    json::{digest, event, kind_name, what_name},
};

/// Default and maximum events of an answer.
const EVENTS: usize = 200;
const EVENTS_MAX: usize = 10_000;

/// Which events are wanted; what is empty restricts nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Wanted {
    /// The whole name.
    name: String,
    prefix: String,
    /// A part of the name.
    contains: String,
    /// A part of the client name, or of the owner.
    client: String,
    session_digest: String,
    event: String,
    kind: String,
    /// Those with a larger number.
    after: u64,
    /// Those with a smaller number.
    before: Option<u64>,
    /// Those until this moment, in milliseconds since 1970.
    until: Option<u64>,
    limit: usize,
}

pub(super) async fn history(
    State(admin): State<Admin>,
    caller: Caller,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Value>, Failure> {
    let names = if wanted.name.is_empty() {
        &wanted.prefix
    } else {
        &wanted.name
    };
    caller.looks(&admin, "History", names)?;
    let limit = match wanted.limit {
        0 => EVENTS,
        asked => asked.min(EVENTS_MAX),
    };
    let last = admin.coordinator.last_event();
    let recent = admin.coordinator.recent();
    let newer = recent.take_while(|it| it.number > wanted.after);
    let mut found = newer.filter(|it| wanted.takes(it));
    let events: Vec<Value> = found.by_ref().take(limit).map(|it| shown(&it)).collect();
    Ok(Json(json!({
        "events": events,
        "lastNumber": last,
        "more": found.next().is_some(),
    })))
}

/// An event with its number and its moment.
pub(super) fn shown(recorded: &Recorded) -> Value {
    let mut shown = event(&recorded.event, &recorded.client_name);
    shown["number"] = recorded.number.into();
    shown["at"] = recorded.unix_millis.into();
    shown
}

// === impl Wanted ===

impl Wanted {
    fn takes(&self, recorded: &Recorded) -> bool {
        let Recorded {
            number,
            unix_millis,
            event,
            client_name,
        } = recorded;
        let name = event.name.public();
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let of_client =
            || client_name.contains(&self.client) || event.owner.label.contains(&self.client);
        let of_session = || digest(&event.owner).is_some_and(|it| it == self.session_digest);
        self.before.is_none_or(|before| *number < before)
            && self.until.is_none_or(|until| *unix_millis <= until)
            && is(&self.name, name)
            && name.starts_with(&self.prefix)
            && name.contains(&self.contains)
            && is(&self.event, what_name(&event.what))
            && is(&self.kind, kind_name(event.kind))
            && of_client()
            && (self.session_digest.is_empty() || of_session())
    }
}
