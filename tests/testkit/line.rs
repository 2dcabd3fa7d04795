//! The lines of a kept history, which `tests/porcupine/README.md` specifies.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::history::{At, Event, What};

/// The first line: what the run was, and what it is judged by.
#[derive(Clone, Debug, Serialize)]
pub struct Header {
    pub run: String,
    /// `exclusion`, `tokens` or `two_stores`.
    pub promise: &'static str,
    pub seed: u64,
    /// A notice of a loss may arrive this much later than the next grant.
    pub notice_us: u64,
}

/// Every other line: what a client did or was answered.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    pub at_us: u64,
    pub client: String,
    /// One request of the client and all that follows from it.
    pub attempt: u64,
    pub name: String,
    pub what: String,
    /// A decimal number, which may exceed 2^53.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub valid_us: u64,
    /// The kind of the object; a lock if it is empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mode: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// Holds, permits or a latch's count.
    #[serde(skip_serializing_if = "is_zero")]
    pub count: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// In microseconds.
pub fn micros(time: Duration) -> u64 {
    time.as_micros().try_into().unwrap_or(u64::MAX)
}

// === impl Line ===

impl Line {
    /// The line of an event of a client that uses a lock of this name.
    pub fn of(event: &Event, client: &str, name: &str) -> Self {
        let line = Self {
            at_us: micros(event.at),
            client: client.to_owned(),
            attempt: event.attempt,
            name: name.to_owned(),
            what: word(event.what).to_owned(),
            ..Self::default()
        };
        match event.what {
            What::Granted { token } => Self {
                token: token.to_string(),
                ..line
            },
            What::AtRisk(left) | What::Broke(left) => Self {
                valid_us: micros(left),
                ..line
            },
            _ => line,
        }
    }

    /// What the line says of a lock, and when.
    ///
    /// # Errors
    ///
    /// If no event is called so, or the token is no number.
    pub fn event(&self) -> Result<(At, What), String> {
        let what = match self.what.as_str() {
            "asked" => What::Asked,
            "granted" => What::Granted {
                token: self.token.parse().map_err(|_| "no token".to_owned())?,
            },
            "failed" => What::Failed,
            "at_risk" => What::AtRisk(Duration::from_micros(self.valid_us)),
            "recovered" => What::Recovered,
            "lost" => What::Lost,
            "broke" => What::Broke(Duration::from_micros(self.valid_us)),
            "resumed" => What::Resumed,
            "release_sent" => What::ReleaseSent,
            "released" => What::Released,
            "refused" => What::Refused,
            what => return Err(format!("no event is called {what}")),
        };
        Ok((Duration::from_micros(self.at_us), what))
    }
}

fn word(what: What) -> &'static str {
    match what {
        What::Asked => "asked",
        What::Granted { .. } => "granted",
        What::Failed => "failed",
        What::AtRisk(_) => "at_risk",
        What::Recovered => "recovered",
        What::Lost => "lost",
        What::Broke(_) => "broke",
        What::Resumed => "resumed",
        What::ReleaseSent => "release_sent",
        What::Released => "released",
        What::Refused => "refused",
    }
}

#[test]
fn a_line_says_what_the_event_says() {
    let token = u64::MAX;
    for what in [
        What::Asked,
        What::Granted { token },
        What::Failed,
        What::AtRisk(Duration::from_millis(3)),
        What::Recovered,
        What::Lost,
        What::Broke(Duration::from_millis(4)),
        What::Resumed,
        What::ReleaseSent,
        What::Released,
        What::Refused,
    ] {
        let event = Event {
            at: Duration::from_millis(1500),
            client: 3,
            attempt: 7,
            name: 2,
            what,
        };
        let text = serde_json::to_string(&Line::of(&event, "c-3", "hot-2")).unwrap();
        let line: Line = serde_json::from_str(&text).unwrap();
        assert_eq!(line.event(), Ok((event.at, what)), "{text}");
    }
    let line = Line {
        what: "told".to_owned(),
        ..Line::default()
    };
    assert!(line.event().is_err());
}
