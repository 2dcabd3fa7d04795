//! Waits and watches that outlive their coordinator: it drains at each planned restart.

use std::time::Duration;

use prost_types::Duration as Limit;
use tokio::time::{Instant, sleep_until};
use tonic::Streaming;

use super::ended::Ended;
use crate::{
    exit,
    failure::{Effect, Failure},
    output::say,
};

/// The pause before the next attempt.
const RETRY_INTERVAL: Duration = Duration::from_millis(300);

/// How long to wait, and whether to try again.
#[derive(Debug)]
pub(super) struct Patience {
    until: Option<Instant>,
    /// A coordinator has answered. Before that, an error more likely means a wrong address.
    has_begun: bool,
    /// An attempt may have changed something.
    may_have_changed: bool,
    has_reported: bool,
}

// === impl Patience ===

impl Patience {
    pub(super) fn new(limit: Option<&Limit>) -> Self {
        let limit = limit.and_then(|it| Duration::try_from(*it).ok());
        Self {
            until: limit.and_then(|limit| Instant::now().checked_add(limit)),
            has_begun: false,
            may_have_changed: false,
            has_reported: false,
        }
    }

    /// What is left of the time to wait; none if there is no limit.
    fn left(&self) -> Option<Limit> {
        let left = self.until?.saturating_duration_since(Instant::now());
        left.try_into().ok()
    }

    /// A coordinator has answered.
    pub(super) fn begun(&mut self) {
        (self.has_begun, self.has_reported) = (true, false);
    }

    /// Pauses before the next attempt. Fails if there is none.
    pub(super) async fn after(&mut self, failure: Failure) -> Result<(), Failure> {
        self.may_have_changed |= failure.exit == exit::OUTCOME_UNKNOWN;
        let may_pass = failure.is_going_away() || (self.has_begun && failure.may_pass());
        let next = Instant::now() + RETRY_INTERVAL;
        if !may_pass || self.until.is_some_and(|until| until < next) {
            let exit = match failure.exit {
                exit::UNAVAILABLE if self.may_have_changed => exit::OUTCOME_UNKNOWN,
                exit => exit,
            };
            return Err(Failure { exit, ..failure });
        }
        self.has_begun = true;
        if !std::mem::replace(&mut self.has_reported, true) {
            say(&format!("{}; trying again", failure.message));
        }
        sleep_until(next).await;
        Ok(())
    }
}

/// Shows the events of a wait until one ends it with an exit code. If the coordinator goes away,
/// `open` is called again, with the rest of the time to wait.
pub(super) async fn wait<Event>(
    limit: Option<Limit>,
    effect: Effect,
    open: impl AsyncFn(Option<Limit>) -> Result<Streaming<Event>, Failure>,
    mut show: impl FnMut(Event) -> Result<Option<u8>, Failure>,
) -> Ended {
    let mut patience = Patience::new(limit.as_ref());
    let mut left = limit;
    loop {
        let failure = match open(left).await {
            Ok(mut events) => loop {
                match events.message().await {
                    Ok(Some(event)) => {
                        patience.begun();
                        if let Some(code) = show(event)? {
                            return Ok(code);
                        }
                    }
                    Ok(None) => break ended_early(effect),
                    Err(status) => break Failure::from_status(&status, effect),
                }
            },
            Err(failure) => failure,
        };
        patience.after(failure).await?;
        left = patience.left();
    }
}

fn ended_early(effect: Effect) -> Failure {
    let why = "the coordinator ended the wait without an answer";
    let exit = match effect {
        Effect::Changes => exit::OUTCOME_UNKNOWN,
        Effect::Reads => exit::UNAVAILABLE,
    };
    Failure {
        exit,
        ..Failure::unavailable(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> Failure {
        Failure::from_status(&tonic::Status::unknown("transport error"), Effect::Changes)
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_goes_on_after_an_answer_within_its_time() {
        let limit = Limit {
            seconds: 1,
            nanos: 0,
        };
        let mut patience = Patience::new(Some(&limit));
        assert!(patience.after(lost()).await.is_err(), "a wrong address?");
        patience.begun();
        let mut attempts = 0;
        while patience.after(lost()).await.is_ok() {
            attempts += 1;
        }
        assert_eq!(attempts, 3);
        let refused = Failure::unavailable("connection refused");
        let ended = patience.after(refused).await.unwrap_err();
        assert_eq!(ended.exit, exit::OUTCOME_UNKNOWN, "of an earlier attempt");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_final_and_a_drain_is_not() {
        let failure = |reason: &str, exit| Failure {
            exit,
            reason: reason.to_owned(),
            message: String::new(),
        };
        let mut patience = Patience::new(None);
        patience
            .after(failure("DRAINING", exit::UNAVAILABLE))
            .await
            .unwrap();
        for reason in ["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN", "WAITERS_MAX"] {
            let failure = failure(reason, exit::UNAVAILABLE);
            assert!(patience.after(failure).await.is_err(), "{reason}");
        }
        let refused = Failure::unavailable("connection refused");
        patience.after(refused).await.unwrap();
        assert_eq!(patience.left(), None);
    }
}
