//! The neighbour: takes a lock and gives it back again and again, and keeps another one. In a
//! thread of its own, so that attackers of this process cannot hold it up.

use std::{net::SocketAddr, thread, time::Duration};

use lockkeeper_api::pb::{self, session_request::Request, session_response::Response};
use lockkeeper_base::tasks::spawn_detached;
use tokio::{
    runtime::Builder,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    client::{Client, Session},
    heartbeat,
    prelude::*,
    scene::Who,
    time::{millis, secs},
};

/// Between two pairs of calls.
const PAUSE: Duration = millis(4);

/// A call that takes longer has failed.
const PATIENCE: Duration = secs(5);

/// The lock that is kept.
const KEPT: &str = "victim/kept";

/// A pair of calls.
#[derive(Clone, Copy, Debug)]
struct Pair {
    since: Instant,
    ended: Instant,
    failed: bool,
}

/// The neighbour at work.
pub(crate) struct Victim {
    stop: CancellationToken,
    thread: thread::JoinHandle<Experience>,
}

/// What the neighbour has seen.
#[derive(Debug)]
pub(crate) struct Experience {
    pairs: Vec<Pair>,
    /// The first of the errors.
    pub(crate) error: Option<String>,
    /// Why the lock was lost that it kept, if it was.
    pub(crate) lost: Option<String>,
}

/// The pairs between two instants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) pairs: usize,
    pub(crate) failed: usize,
    /// Of 100 pairs 99 took less, failed ones for ever; without what the machine took.
    pub(crate) p99: Duration,
}

// === impl Victim ===

impl Victim {
    /// Begins, and has the lock that it keeps.
    pub(crate) async fn start(address: SocketAddr, lease: Duration) -> Self {
        let stop = CancellationToken::new();
        let (stopped, has_begun) = (stop.clone(), CancellationToken::new());
        let begun = has_begun.clone();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(work(address, lease, begun, stopped))
        });
        let begins = timeout(secs(15), has_begun.cancelled()).await;
        begins.expect("the victim begins");
        Self { stop, thread }
    }

    pub(crate) fn end(self) -> Experience {
        self.stop.cancel();
        self.thread.join().unwrap()
    }
}

// === impl Experience ===

impl Experience {
    pub(crate) fn pace(&self, from: Instant, until: Instant) -> Pace {
        let pairs = self.pairs.iter();
        let pairs: Vec<_> = pairs
            .filter(|it| it.since >= from && it.since < until)
            .collect();
        let mut times: Vec<_> = pairs.iter().map(|it| it.time()).collect();
        times.sort();
        let at = (times.len() * 99).div_ceil(100).saturating_sub(1);
        Pace {
            pairs: pairs.len(),
            failed: pairs.iter().filter(|it| it.failed).count(),
            p99: times.get(at).copied().unwrap_or(Duration::MAX),
        }
    }
}

// === impl Pair ===

impl Pair {
    fn time(&self) -> Duration {
        if self.failed {
            return Duration::MAX;
        }
        let late = heartbeat::lateness(self.since, self.ended).total;
        (self.ended - self.since).saturating_sub(late)
    }
}

async fn work(
    address: SocketAddr,
    lease: Duration,
    begun: CancellationToken,
    stop: CancellationToken,
) -> Experience {
    let keeper = Who::Victim.connect(address).await;
    let kept = spawn_detached("keeper", keep(keeper, lease, begun.clone(), stop.clone()));
    begun.cancelled().await;
    let mut client = Who::Victim.connect(address).await;
    let (mut pairs, mut error) = (Vec::new(), None);
    while !stop.is_cancelled() {
        let name = format!("victim/{}", pairs.len() % 100);
        let since = Instant::now();
        let pair = timeout(PATIENCE, pair(&mut client, &name)).await;
        let failed = match pair {
            Ok(Ok(())) => false,
            Ok(Err(why)) => {
                error.get_or_insert(why);
                true
            }
            Err(_elapsed) => {
                error.get_or_insert(format!("no answer within {PATIENCE:?}"));
                true
            }
        };
        let ended = Instant::now();
        pairs.push(Pair {
            since,
            ended,
            failed,
        });
        sleep(PAUSE).await;
    }
    let lost = kept.await.unwrap();
    Experience { pairs, error, lost }
}

/// Takes a lock and gives it back.
async fn pair(client: &mut Client, name: &str) -> Result<(), String> {
    let tried = client.try_acquire(name, "v", secs(10)).await;
    let tried = tried.map_err(|why| format!("TryAcquire: {why}"))?;
    let released = client.release(name, "v").await;
    let released = released.map_err(|why| format!("Release: {why}"))?;
    // One whose release failed is still held.
    if tried.acquired && released.released {
        return Ok(());
    }
    Err(format!("{tried:?}, {released:?}"))
}

/// Keeps a watched lock until the stop. Returns how it was lost, if it was.
async fn keep(
    mut client: Client,
    lease: Duration,
    begun: CancellationToken,
    stop: CancellationToken,
) -> Option<String> {
    let open = pb::OpenSession::default().lasting(lease);
    let mut session = client.open_with(open).await.unwrap();
    session.acquire(KEPT).await;
    begun.cancel();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            frame = session.next() => match frame.map(|it| it.and_then(|it| it.response)) {
                Ok(Some(Response::Lost(lost))) => return Some(format!("{lost:?}")),
                Ok(Some(_)) => {}
                ended => return Some(format!("the session ended: {ended:?}")),
            },
        }
    }
    let released = timeout(PATIENCE, release(&mut session)).await;
    let is_kept = matches!(&released, Ok(Response::Released(it)) if it.released);
    (!is_kept).then(|| format!("its release: {released:?}"))
}

/// Releases the kept lock, again if the outcome is unknown, as clients do.
async fn release(session: &mut Session) -> Response {
    loop {
        let request = pb::ReleaseRequest::named(KEPT).with_id("end");
        let op_id = session.send(Request::Release(request));
        match session.end(op_id).await {
            Response::Failed(_) => sleep(PAUSE).await,
            answer => return answer,
        }
    }
}
