//! A semaphore of a few permits.

use std::time::Duration;

use lockkeeper_client::{Client, Error, Session};
use lockkeeper_testkit::line::{Line, micros};
use rand::RngExt as _;
use tokio::time::{Instant, sleep};

use super::user::{Attempt, User, WAIT};
use crate::contender::Ring;

const NAME: &str = "kind-semaphore";

/// Fewer than its users may want together.
const PERMITS: u32 = 3;

const WANTED_MAX: u32 = 2;

/// Creates it, and writes down how many permits it has.
pub(super) async fn create(ring: &Ring, client: &Client) {
    let session = client.session().open().await.expect("a session");
    let semaphore = session.semaphore(NAME);
    for what in ["set_sent", "set"] {
        if what == "set" {
            semaphore.set_permits(PERMITS).await.expect("permits");
        }
        ring.kinds.note(|at| Line {
            at_us: micros(at),
            client: "setup".to_owned(),
            kind: "semaphore".to_owned(),
            name: NAME.to_owned(),
            what: what.to_owned(),
            count: PERMITS.into(),
            ..Line::default()
        });
    }
    session.close().await.expect("closed");
}

// === impl User ===

impl User {
    /// Acquires some permits, and releases them.
    pub(super) async fn hold_permits(&mut self, session: &Session) -> Result<(), Error> {
        let attempt = Attempt {
            kind: "semaphore",
            name: NAME,
            owner: "",
            mode: "",
            number: self.next(),
        };
        let wanted = self.random.random_range(1..=WANTED_MAX);
        self.note(attempt, "asked", wanted, 0);
        let request = session.semaphore(NAME).permits(wanted);
        let permits = match request.wait_timeout(WAIT).acquire().await {
            Ok(permits) => permits,
            Err(error) => {
                self.note(attempt, "failed", 0, 0);
                return Err(error);
            }
        };
        self.note(attempt, "granted", permits.count(), 0);
        let busy = self.random.random_range(2..60);
        tokio::select! {
            () = sleep(Duration::from_millis(busy)) => {}
            () = permits.lost().cancelled() => {}
        }
        self.relied(attempt, permits.valid_until().min(Instant::now()));
        self.note(attempt, "release_sent", 0, 0);
        let released = permits.release().await;
        self.ended(attempt, "released", released)
    }
}
