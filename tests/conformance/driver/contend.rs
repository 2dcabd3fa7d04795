//! Contention for one lock, and what is seen of it: the history of `clients/conformance.md`.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    time::Duration,
};

use lockkeeper_client::{Guard, Session, SessionEvent, SessionEvents};
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use crate::wire::{Command, Failure};

/// After an acquire that failed.
const PAUSE: Duration = Duration::from_millis(50);

/// What one contender saw, a line for each event.
struct History<'a> {
    file: File,
    command: &'a Command,
    attempt: u64,
}

/// Acquires and releases a lock in a loop until the time is over.
pub(crate) async fn contend(session: &Session, command: &Command) -> Result<Value, Failure> {
    let path = std::env::var_os("LOCKKEEPER_HISTORY").unwrap_or_default();
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(|_| Failure::of_kind("misconfigured"))?;
    let mut history = History {
        file,
        command,
        attempt: 0,
    };
    let end = Instant::now() + Duration::from_secs_f64(command.seconds);
    while Instant::now() < end {
        history.attempt += 1;
        history.note(json!({ "what": "asked" }));
        let lock = session.lock(&command.name).mode(command.mode());
        if let Ok(guard) = lock.acquire().await {
            history.hold(guard, session.events()).await;
        } else {
            history.note(json!({ "what": "failed" }));
            sleep(PAUSE).await;
        }
    }
    Ok(json!({ "attempts": history.attempt }))
}

// === impl History ===

impl History<'_> {
    /// Works under the lock, and releases it.
    async fn hold(&mut self, guard: Guard, mut events: SessionEvents) {
        let token = guard.fencing_token().to_string();
        self.note(json!({ "what": "granted", "token": token }));
        let until = Instant::now() + Duration::from_millis(self.command.hold_ms);
        let is_lost = loop {
            tokio::select! {
                () = guard.lost().cancelled() => break true,
                () = sleep_until(until) => break false,
                Some(event) = events.next() => self.note_session(&event, &guard),
            }
        };
        if is_lost {
            return self.note(json!({ "what": "lost" }));
        }
        self.note(json!({ "what": "release_sent" }));
        let released = guard.release().await;
        let what = if released.is_ok() {
            "released"
        } else {
            "refused"
        };
        self.note(json!({ "what": what }));
    }

    fn note_session(&mut self, event: &SessionEvent, guard: &Guard) {
        match event {
            SessionEvent::Broken { .. } => {
                let valid_us = guard.valid_for().as_micros();
                self.note(json!({ "what": "broke", "valid_us": valid_us }));
            }
            SessionEvent::Resumed => self.note(json!({ "what": "resumed" })),
            SessionEvent::Recovered => self.note(json!({ "what": "recovered" })),
            SessionEvent::AtRisk { valid_for } => {
                let valid_us = valid_for.as_micros();
                self.note(json!({ "what": "at_risk", "valid_us": valid_us }));
            }
            _ => {}
        }
    }

    /// Appends what happens now.
    fn note(&mut self, mut event: Value) {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
        event["at_us"] = json!(now.unwrap_or_default().as_micros());
        event["client"] = json!(self.command.client);
        event["attempt"] = json!(self.attempt);
        event["name"] = json!(self.command.name);
        // One write for each line: several processes append to the file.
        if let Err(problem) = self.file.write_all(format!("{event}\n").as_bytes()) {
            event["problem"] = json!(problem.to_string());
            crate::wire::print(&event);
        }
    }
}
