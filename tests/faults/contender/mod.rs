//! A program that takes locks, works under them, and gives them back, again and again, while things
//! break.

mod stream;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use lockkeeper_api::pb::{self, session_request::Request, session_response::Response};
use lockkeeper_testkit::prelude::*;
use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::{
    history::{Attempt, History, Log, Name, What},
    kinds::Terms,
    line::Line,
    link::{Came, Link},
    witness::Witness,
    world::LEASE,
};

/// Locks that many want for a moment, and then those that are held long enough to be renewed, and
/// to be lost.
pub(crate) const SHORT: usize = 5;
pub(crate) const NAMES: usize = SHORT + 2;

/// How long the long sections are at most.
const LONG: Duration = LEASE.saturating_mul(2);

/// After something failed.
const PAUSE: Duration = Duration::from_millis(50);

/// What all contenders of a run share.
pub(crate) struct Ring {
    pub(crate) history: History,
    /// What the users of all kinds do and are answered.
    pub(crate) kinds: Log<Line>,
    /// What candidates and observers of the election say.
    pub(crate) terms: Terms,
    pub(crate) witness: Witness,
    /// Where the coordinators are. A contender begins at one and goes on at the others.
    pub(crate) coordinators: Vec<SocketAddr>,
    /// Why calls failed, and how often.
    pub(crate) failures: Mutex<BTreeMap<String, usize>>,
    /// Of all grants the fewest replicas that acknowledged one.
    pub(crate) acks_min: AtomicU32,
    /// Nothing new is begun.
    pub(crate) stop: CancellationToken,
}

/// One of them.
pub(crate) struct Contender {
    ring: Arc<Ring>,
    number: usize,
    random: Xoshiro256PlusPlus,
    at: usize,
    link: Option<Link>,
    /// To resume, if there was a session.
    session: Option<pb::SessionOpened>,
    held: Option<Held>,
    requests: u64,
}

/// What it has.
struct Held {
    attempt: Attempt,
    name: Name,
    grant: pb::Grant,
    is_lost: bool,
    /// What was announced to come true then.
    risk: Option<Instant>,
}

/// How a lock is called in the store.
pub(crate) fn name(number: Name) -> String {
    format!("hot-{number}")
}

// === impl Ring ===

impl Ring {
    pub(crate) fn of(coordinators: Vec<SocketAddr>) -> Self {
        Self {
            history: History::begin(),
            kinds: Log::begin(),
            terms: Terms::default(),
            witness: Witness::of(NAMES),
            coordinators,
            failures: Mutex::default(),
            acks_min: AtomicU32::new(u32::MAX),
            stop: CancellationToken::new(),
        }
    }
}

// === impl Contender ===

impl Contender {
    pub(crate) fn new(ring: Arc<Ring>, number: usize, seed: u64) -> Self {
        let seed = seed.wrapping_mul(1000).wrapping_add(number as u64);
        Self {
            at: number,
            ring,
            number,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            link: None,
            session: None,
            held: None,
            requests: 0,
        }
    }

    /// Contends until it is told to stop and has come to the end of what it had begun.
    pub(crate) async fn run(mut self) {
        while !self.ring.stop.is_cancelled() {
            let name = self.choose();
            self.connect().await;
            if self.acquire(name).await {
                self.work().await;
                self.give_back().await;
            } else {
                sleep(PAUSE).await;
            }
            let pause = self.random.random_range(0..10);
            sleep(Duration::from_millis(pause)).await;
        }
    }

    fn choose(&mut self) -> Name {
        // A few of them keep the long ones busy.
        match self.number % 8 {
            long @ 0..2 => SHORT + long,
            _ => self.random.random_range(0..SHORT),
        }
    }

    fn note(&self, attempt: Attempt, name: Name, what: What) {
        self.ring.history.note(self.number, attempt, name, what);
    }

    fn note_held(&self, what: What) {
        if let Some(held) = &self.held {
            self.note(held.attempt, held.name, what);
        }
    }

    /// Waits until it has the lock. False if that failed.
    async fn acquire(&mut self, number: Name) -> bool {
        self.requests += 1;
        let request_id = format!("a-{}-{}", self.number, self.requests);
        let attempt = self.ring.history.ask(self.number, number);
        let link = self.link.as_mut().expect("it is connected");
        let op = link.send(Request::Acquire(
            pb::AcquireRequest::named(name(number)).with_id(request_id),
        ));
        loop {
            let Some(link) = self.link.as_mut() else {
                self.note(attempt, number, What::Failed);
                return false;
            };
            match link.next().await {
                Came::Frame(id, Response::Granted(grant)) if id == op => {
                    let token = grant.fencing_token;
                    let acks_min = &self.ring.acks_min;
                    acks_min.fetch_min(grant.replica_acks, Ordering::Relaxed);
                    self.note(attempt, number, What::Granted { token });
                    self.held = Some(Held {
                        attempt,
                        name: number,
                        grant,
                        is_lost: false,
                        risk: None,
                    });
                    return true;
                }
                Came::Frame(id, Response::Failed(failed)) if id == op => {
                    let why = format!("{:?}: {}", Code::from_i32(failed.code), failed.message);
                    *self.ring.failures.lock().entry(why).or_default() += 1;
                    self.note(attempt, number, What::Failed);
                    return false;
                }
                Came::Frame(id, Response::NotGranted(_)) if id == op => {
                    self.note(attempt, number, What::Failed);
                    return false;
                }
                Came::Frame(..) => {}
                Came::Broke => self.broke(),
            }
        }
    }

    /// Reads, is busy for a while, and writes.
    async fn work(&mut self) {
        let Some(held) = &self.held else { return };
        let (name, token) = (held.name, held.grant.fencing_token);
        let busy = if name >= SHORT {
            let most = LONG.as_millis().try_into().unwrap_or(u64::MAX);
            self.random.random_range(most / 2..=most)
        } else {
            self.random.random_range(2..25)
        };
        let read = self.ring.witness.read(name, token);
        let done = Instant::now() + Duration::from_millis(busy);
        let stop = self.ring.stop.clone();
        while !self.held.as_ref().is_none_or(|it| it.is_lost) {
            let came = tokio::select! {
                () = sleep_until(done) => break,
                () = stop.cancelled(), if name >= SHORT => break,
                came = next(&mut self.link) => came,
            };
            self.hear(came);
            self.connect().await;
        }
        let held = self.held.as_ref();
        let knows_better =
            held.is_none_or(|it| it.is_lost || it.risk.is_some_and(|risk| risk <= Instant::now()));
        self.ring.witness.write(name, token, read, knows_better);
    }

    /// Gives the lock back, again until that is known to be done or not to be needed.
    async fn give_back(&mut self) {
        self.note_held(What::ReleaseSent);
        self.requests += 1;
        let mut request_id = format!("r-{}-{}", self.number, self.requests);
        while let Some(held) = self.held.as_ref().filter(|it| !it.is_lost) {
            let name = held.name;
            self.connect().await;
            let Some(link) = self.link.as_mut() else {
                break;
            };
            let op = link.send(Request::Release(
                pb::ReleaseRequest::named(self::name(name)).with_id(request_id.clone()),
            ));
            let answer = loop {
                let Some(link) = self.link.as_mut() else {
                    break None;
                };
                match link.next().await {
                    Came::Frame(id, response) if id == op => break Some(response),
                    came => self.hear(came),
                }
            };
            match answer {
                // A grant that was never told, of before the stream broke, counts as well.
                Some(Response::Released(released)) if released.hold_count > 0 => {
                    self.requests += 1;
                    request_id = format!("r-{}-{}", self.number, self.requests);
                }
                Some(Response::Released(_)) => {
                    self.note_held(What::Released);
                    self.held = None;
                }
                Some(Response::Failed(failed)) => self.refused(failed.code).await,
                _ => {}
            }
        }
        self.held = None;
    }

    async fn refused(&mut self, code: i32) {
        match Code::from_i32(code) {
            Code::FailedPrecondition | Code::NotFound | Code::PermissionDenied => {
                self.note_held(What::Refused);
                self.held = None;
            }
            // It may or may not have been done: the same request again tells.
            _ => sleep(PAUSE).await,
        }
    }
}

async fn next(link: &mut Option<Link>) -> Came {
    match link {
        Some(link) => link.next().await,
        None => Came::Broke,
    }
}
