//! Latches: one after another is set, counted down by several users, and awaited.

use std::time::Duration;

use lockkeeper_client::{Error, Session};
use tokio::time::timeout;

use super::user::{Attempt, User, WAIT};

/// One for each user that counts down, the one that sets it included.
const COUNT: u32 = 3;

/// Nothing of a run stays longer.
const TTL: Duration = Duration::from_secs(60);

// === impl User ===

impl User {
    /// Sets the count of a new latch, counts it down as the others do, and awaits it.
    pub(super) async fn set_latch(&mut self, session: &Session) -> Result<(), Error> {
        let number = self.next();
        let name = latch(number);
        let attempt = attempt(&name, number);
        self.note(attempt, "set_sent", COUNT, 0);
        match session.latch(&name).set_count(COUNT, Some(TTL)).await {
            Ok(_) => self.note(attempt, "set", COUNT, 0),
            Err(error) => {
                // Nobody uses it.
                self.note(attempt, "failed", 0, 0);
                return Err(error);
            }
        }
        self.latch.send_replace(number);
        self.lower(session, number).await
    }

    /// Counts the next latch down, and awaits it.
    pub(super) async fn count_down(&mut self, session: &Session) -> Result<(), Error> {
        match self.next_latch().await {
            Some(number) => self.lower(session, number).await,
            None => Ok(()),
        }
    }

    /// Awaits the next latch from when it is set.
    pub(super) async fn await_latch(&mut self, session: &Session) -> Result<(), Error> {
        match self.next_latch().await {
            Some(number) => self.await_opening(session, &latch(number)).await,
            None => Ok(()),
        }
    }

    async fn lower(&mut self, session: &Session, number: u64) -> Result<(), Error> {
        self.pause(2..60).await;
        let name = latch(number);
        let attempt = attempt(&name, self.next());
        self.note(attempt, "count_sent", 1, 0);
        match session.latch(&name).count_down(1).await {
            Ok(left) => self.note(attempt, "counted", left, 0),
            Err(error) => {
                self.note(attempt, "failed", 1, 0);
                return Err(error);
            }
        }
        self.await_opening(session, &name).await
    }

    async fn await_opening(&mut self, session: &Session, name: &str) -> Result<(), Error> {
        let attempt = attempt(name, self.next());
        self.note(attempt, "await_sent", 0, 0);
        let opened = session.latch(name).wait(Some(WAIT)).await;
        self.ended(attempt, "opened", opened)
    }

    /// The next one that is set; none if there is none for a while.
    async fn next_latch(&mut self) -> Option<u64> {
        let next = timeout(WAIT, self.latches.changed()).await;
        next.is_ok().then(|| *self.latches.borrow_and_update())
    }
}

fn latch(number: u64) -> String {
    format!("kind-latch-{number}")
}

fn attempt(name: &str, number: u64) -> Attempt<'_> {
    Attempt {
        kind: "latch",
        name,
        owner: "",
        mode: "",
        number,
    }
}
