//! A user of one kind: its session, and how it writes down what happens.

use std::{sync::Arc, time::Duration};

use lockkeeper_client::{Client, Error, Session};
use lockkeeper_testkit::line::{Line, micros};
use rand::{RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::semaphore;
use crate::{
    contender::Ring,
    coordinator::Coordinator,
    world::{Kind, World},
};

/// How long an acquire waits at most.
pub(crate) const WAIT: Duration = Duration::from_secs(3);

/// After something failed.
const PAUSE: Duration = Duration::from_millis(50);

/// What a user uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Lock,
    FairLock,
    ReadWrite,
    Semaphore,
    /// Sets the counts; one user does.
    LatchSet,
    LatchCount,
    LatchAwait,
    Lead,
    Observe,
}

/// A program that uses one kind again and again.
pub(crate) struct User {
    pub(super) ring: Arc<Ring>,
    pub(super) client: Client,
    pub(super) name: String,
    pub(super) random: Xoshiro256PlusPlus,
    /// The newest latch whose count is known to be set.
    pub(super) latch: watch::Sender<u64>,
    pub(super) latches: watch::Receiver<u64>,
    attempts: u64,
    session: Option<Session>,
}

/// One request, and the object that it is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt<'a> {
    pub(super) kind: &'static str,
    pub(super) name: &'a str,
    pub(super) owner: &'a str,
    pub(super) mode: &'static str,
    pub(super) number: u64,
}

/// The users that a store can serve.
pub(crate) fn uses(kind: Kind) -> Vec<Use> {
    let mut uses = vec![Use::Lock; 3];
    uses.extend([Use::ReadWrite; 4]);
    if kind != Kind::Quorum {
        uses.extend([Use::FairLock; 2]);
        uses.extend([Use::Semaphore; 3]);
        uses.extend([Use::LatchSet, Use::LatchCount, Use::LatchCount]);
        uses.push(Use::LatchAwait);
        uses.extend([Use::Lead; 3]);
        uses.extend([Use::Observe; 2]);
    }
    uses
}

/// Makes what the users need, before anything breaks.
pub(crate) async fn prepare(ring: &Ring, world: &World, kind: Kind) {
    if kind != Kind::Quorum {
        let client = client(world, 0);
        semaphore::create(ring, &client).await;
    }
}

/// A client that begins at one of the coordinators.
fn client(world: &World, number: usize) -> Client {
    let coordinators = &world.coordinators;
    let first = number % coordinators.len();
    let order = coordinators[first..].iter().chain(&coordinators[..first]);
    let urls = order.map(Coordinator::url);
    let builder = Client::builder();
    let with = urls.fold(builder, |it, url| it.endpoint(&url).expect("an address"));
    with.build().expect("a client")
}

// === impl User ===

impl User {
    pub(crate) fn new(
        ring: &Arc<Ring>,
        world: &World,
        number: usize,
        seed: u64,
        latch: &watch::Sender<u64>,
    ) -> Self {
        let seed = seed.wrapping_mul(1000).wrapping_add(500 + number as u64);
        Self {
            ring: ring.clone(),
            client: client(world, number),
            name: format!("user-{number}"),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            latch: latch.clone(),
            latches: latch.subscribe(),
            attempts: 0,
            session: None,
        }
    }

    /// Goes on until the run ends.
    pub(crate) async fn run(mut self, uses: Use) {
        while !self.ring.stop.is_cancelled() {
            let done = match self.session().await {
                Ok(session) => self.once(&session, uses).await,
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                if error.is_session_ended() {
                    self.session = None;
                }
                sleep(PAUSE).await;
            }
            self.pause(5..40).await;
        }
        if let Some(session) = self.session.take() {
            // Nothing depends on it: what is held ends with its lease.
            let _ = session.close().await;
        }
    }

    async fn once(&mut self, session: &Session, uses: Use) -> Result<(), Error> {
        match uses {
            Use::Lock => self.hold(session, false).await,
            Use::FairLock => self.hold(session, true).await,
            Use::ReadWrite => self.read_or_write(session).await,
            Use::Semaphore => self.hold_permits(session).await,
            Use::LatchSet => self.set_latch(session).await,
            Use::LatchCount => self.count_down(session).await,
            Use::LatchAwait => self.await_latch(session).await,
            Use::Lead => self.lead(session).await,
            Use::Observe => self.observe().await,
        }
    }

    async fn session(&mut self) -> Result<Session, Error> {
        if self.session.is_none() {
            self.session = Some(self.client.session().open().await?);
        }
        Ok(self.session.clone().expect("it was opened"))
    }

    /// Sleeps for some milliseconds.
    pub(super) async fn pause(&mut self, millis: std::ops::Range<u64>) {
        sleep(Duration::from_millis(self.random.random_range(millis))).await;
    }

    pub(super) fn next(&mut self) -> u64 {
        self.attempts += 1;
        self.attempts
    }

    /// Writes down what happens now.
    pub(super) fn note(&self, attempt: Attempt<'_>, what: &str, count: u32, token: u64) {
        let line = self.line(attempt, what);
        self.ring.kinds.note(|at| Line {
            at_us: micros(at),
            count: count.into(),
            token: match token {
                0 => String::new(),
                token => token.to_string(),
            },
            ..line
        });
    }

    /// Writes down until when the client relies on what it holds: now, or earlier.
    pub(super) fn relied(&self, attempt: Attempt<'_>, until: Instant) {
        let line = self.line(attempt, "relied");
        self.ring.kinds.note(|now| {
            let late = Instant::now().saturating_duration_since(until);
            Line {
                at_us: micros(now.saturating_sub(late)),
                ..line
            }
        });
    }

    /// Writes down how a release or another call without an answer of its own ended.
    pub(super) fn ended(
        &self,
        attempt: Attempt<'_>,
        word: &str,
        done: Result<(), Error>,
    ) -> Result<(), Error> {
        let what = match &done {
            Ok(()) => word,
            Err(error) if error.is_lost() => "refused",
            Err(_) => "failed",
        };
        self.note(attempt, what, 0, 0);
        done
    }

    fn line(&self, attempt: Attempt<'_>, what: &str) -> Line {
        Line {
            client: self.name.clone(),
            attempt: attempt.number,
            name: attempt.name.to_owned(),
            what: what.to_owned(),
            kind: attempt.kind.to_owned(),
            mode: attempt.mode.to_owned(),
            owner: attempt.owner.to_owned(),
            ..Line::default()
        }
    }
}
