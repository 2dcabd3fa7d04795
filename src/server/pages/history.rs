//! The last events, as JSON.

use std::{cmp::Reverse, collections::BTreeMap};

use lockkeeper_coordinator::{Coordinator, Invalid, Limits, LockName, Recorded};
use serde::Deserialize;
use serde_json::{Value, json};

use super::json::{EVENT_NAMES, KIND_NAMES, digest, event, kind_name, what_name};

/// Default and maximum events of an answer.
const EVENTS: usize = 200;
const EVENTS_MAX: usize = 10_000;

/// Coordinators of a cursor: as many as know each other, and some that have ended since.
const CURSOR_PLACES_MAX: usize = 128;

/// Which events are wanted; what is empty restricts nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Wanted {
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
    /// The `cursor` of an earlier answer: those that came after it, at each coordinator.
    since: String,
    /// Those with a smaller number.
    before: Option<u64>,
    /// Those until this moment, in milliseconds since 1970.
    until: Option<u64>,
    limit: usize,
}

/// The kept events of a coordinator, newest first.
pub(super) fn history(coordinator: &Coordinator, wanted: &Wanted) -> Value {
    let last = coordinator.last_event();
    let recent = coordinator.recent();
    let id = coordinator.id();
    let since = wanted.since().remove(id).unwrap_or_default();
    let after = wanted.after.max(since);
    let newer = recent.take_while(|it| it.number > after);
    let mut found = newer.filter(|it| wanted.takes(it));
    let events: Vec<Value> = found
        .by_ref()
        .take(wanted.limit())
        .map(|it| shown(&it))
        .collect();
    json!({
        "events": events,
        "lastNumber": last,
        "cursor": format!("{id}.{last}"),
        "more": found.next().is_some(),
    })
}

/// The same of several coordinators by name, this one first, and whether these are all.
pub(super) fn together(wanted: &Wanted, answers: Vec<(String, Value)>, is_all: bool) -> Value {
    let number = answers.first().map(|(_, own)| own["lastNumber"].clone());
    let (mut events, mut more) = (Vec::new(), false);
    // What a coordinator that did not answer knew is known still.
    let mut cursor = if is_all {
        BTreeMap::new()
    } else {
        wanted.since()
    };
    for (name, mut answer) in answers {
        cursor.extend(places(answer["cursor"].as_str().unwrap_or_default()));
        more |= answer["more"] == true;
        let Value::Array(part) = answer["events"].take() else {
            continue;
        };
        events.extend(part.into_iter().map(|mut event| {
            if !name.is_empty() {
                event["coordinator"] = name.as_str().into();
            }
            event
        }));
    }
    // Stable, because the events of one coordinator are in order.
    events.sort_by_key(|it: &Value| Reverse(it["at"].as_u64()));
    more |= events.len() > wanted.limit();
    events.truncate(wanted.limit());
    let cursor = cursor.iter().map(|(id, last)| format!("{id}.{last}"));
    json!({
        "events": events,
        "lastNumber": number,
        "cursor": cursor.collect::<Vec<_>>().join(","),
        "more": more,
    })
}

/// The numbers of a cursor, by the ids of their coordinators.
fn places(cursor: &str) -> impl Iterator<Item = (String, u64)> {
    let places = cursor.split(',').take(CURSOR_PLACES_MAX);
    places.filter_map(place)
}

fn place(text: &str) -> Option<(String, u64)> {
    let (id, number) = text.rsplit_once('.')?;
    Some((id.to_owned(), number.parse().ok()?))
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
    /// Fails if a parameter has a value that no event can have: it would find nothing, which looks
    /// like an answer.
    pub(super) fn checked(self) -> Result<Self, Invalid> {
        for (field, value, known) in [
            ("event", &self.event, &EVENT_NAMES[..]),
            ("kind", &self.kind, &KIND_NAMES),
        ] {
            if !value.is_empty() && !known.contains(&value.as_str()) {
                let why = format!("must be one of {}", known.join(", "));
                return Err(Invalid::new(field, why));
            }
        }
        let is_cursor = self.since.split(',').all(|it| place(it).is_some());
        if !self.since.is_empty() && !is_cursor {
            return Err(Invalid::new("since", "is not a cursor that was given out"));
        }
        Ok(self)
    }

    /// Fails if no lock can have the wanted name.
    pub(super) fn name(&self, limits: &Limits) -> Result<(), Invalid> {
        if self.name.is_empty() {
            return Ok(());
        }
        LockName::parse(&self.name, limits).map(drop)
    }

    /// What the wanted names begin with.
    pub(super) fn names(&self) -> &str {
        if self.name.is_empty() {
            &self.prefix
        } else {
            &self.name
        }
    }

    /// Whether numbers are given: each coordinator counts its own events.
    pub(super) fn is_of_one_coordinator(&self) -> bool {
        self.after > 0 || self.before.is_some()
    }

    fn since(&self) -> BTreeMap<String, u64> {
        places(&self.since).collect()
    }

    fn limit(&self) -> usize {
        match self.limit {
            0 => EVENTS,
            asked => asked.min(EVENTS_MAX),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_finds_nothing_is_refused_by_its_name() {
        let wanted = |event: &str, kind: &str, since: &str| {
            let wanted = Wanted {
                event: event.to_owned(),
                kind: kind.to_owned(),
                since: since.to_owned(),
                ..Wanted::default()
            };
            wanted.checked().map_err(|invalid| invalid.field).err()
        };
        assert_eq!(wanted("", "", ""), None);
        assert_eq!(wanted("waitBegan", "readWriteLock", "a.7,b.9"), None);
        assert_eq!(wanted("acquired", "", ""), Some("event"));
        assert_eq!(wanted("", "mutex", ""), Some("kind"));
        for since in ["yesterday", "7", "a.7,", "a.-1"] {
            assert_eq!(wanted("", "", since), Some("since"), "{since}");
        }
    }

    #[test]
    fn a_cursor_keeps_the_place_at_a_coordinator_that_did_not_answer() {
        let wanted = Wanted {
            since: "a.7,b.9".to_owned(),
            ..Wanted::default()
        };
        let answer = || vec![(String::new(), json!({ "cursor": "a.8", "events": [] }))];
        assert_eq!(together(&wanted, answer(), false)["cursor"], "a.8,b.9");
        assert_eq!(together(&wanted, answer(), true)["cursor"], "a.8");
        assert_eq!(
            places("x,a.-1,.5,b.1").count(),
            2,
            "what cannot be read is left out"
        );
    }
}
