//! Tests of the client with scripted coordinators, of which some are frozen: they accept
//! connections, and say nothing.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::future;
use hyper::{
    Request, Response,
    body::{Body, Bytes, Frame, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lockkeeper_api::pb::{
    AwaitFreeResponse, Grant, LockFree, NoLeader, ObserveResponse, SessionOpened, SessionRequest,
    SessionResponse, WatchLockResponse, YieldRequested, await_free_response, session_request,
    session_response,
};
use parking_lot::Mutex;
use prost::Message;
use tokio::{
    io::{DuplexStream, duplex},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::{
    Client, Connector, Dialled, Error, Guard, LockEvent, Observed, Session, SessionEvent,
    clock::Clock,
    endpoints::{Endpoints, Rounds},
    task::spawn_detached,
};

const LEASE: Duration = Duration::from_secs(30);
const WAIT: Duration = Duration::from_secs(5);

/// Twice the time after which a silent connection is pinged.
const NOTICED: Duration = Duration::from_secs(10);

/// Coordinators, numbered by their ports.
#[derive(Clone, Default)]
struct Coordinators(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    frozen: Vec<u16>,
    /// Which were connected to.
    dialled: Vec<u16>,
    /// The far ends of connections to frozen ones.
    silent: Vec<DuplexStream>,
    /// Breaks the connections to the others.
    cut: CancellationToken,
    heard: Heard,
}

/// An answer that does not end: a message for each of the request.
struct Answer {
    request: Incoming,
    messages: VecDeque<Bytes>,
    heard: Heard,
}

/// The messages of requests.
type Heard = Arc<Mutex<Vec<Bytes>>>;

// === impl Coordinators ===

impl Coordinators {
    fn with_frozen(frozen: &[u16]) -> Self {
        let coordinators = Self::default();
        coordinators.freeze(frozen);
        coordinators
    }

    /// Breaks all connections, and freezes these.
    fn freeze(&self, ports: &[u16]) {
        let mut state = self.0.lock();
        state.frozen = ports.to_vec();
        std::mem::take(&mut state.cut).cancel();
    }

    /// A client that knows this many, in their order.
    fn client(&self, count: u16) -> Client {
        let builder = (1..=count).fold(Client::builder(), |builder, port| {
            builder.endpoint(&format!("http://node:{port}")).unwrap()
        });
        let coordinators = self.clone();
        let dial = move |address: crate::Address| -> Dialled {
            let port = address
                .as_str()
                .rsplit(':')
                .next()
                .unwrap()
                .parse()
                .unwrap();
            let near = coordinators.connect(port);
            let wire: Result<Box<dyn crate::Wire>, io::Error> = Ok(Box::new(TokioIo::new(near)));
            Box::pin(future::ready(wire))
        };
        builder.dial(dial).build().unwrap()
    }

    fn connect(&self, port: u16) -> DuplexStream {
        let (near, far) = duplex(1 << 16);
        let mut state = self.0.lock();
        state.dialled.push(port);
        if state.frozen.contains(&port) {
            state.silent.push(far);
        } else {
            let http = http2::Builder::new(TokioExecutor::new());
            let heard = Arc::clone(&state.heard);
            let answers = service_fn(move |it| {
                let answer = answer(it, Arc::clone(&heard));
                future::ok::<_, Infallible>(answer)
            });
            let serves = http.serve_connection(TokioIo::new(far), answers);
            let cut = state.cut.clone();
            spawn_detached("coordinator", async move {
                let _ = cut.run_until_cancelled(serves).await;
            });
        }
        near
    }

    fn dialled(&self) -> Vec<u16> {
        self.0.lock().dialled.clone()
    }
}

/// The first answer of a coordinator with free locks, and elections without a leader.
fn answer(call: Request<Incoming>, heard: Heard) -> Response<Answer> {
    let messages = match call.uri().path().rsplit('/').next() {
        Some("AwaitFree") => encoded(&AwaitFreeResponse {
            event: Some(await_free_response::Event::Free(LockFree::default())),
        }),
        Some("WatchLock") => encoded(&WatchLockResponse {
            event: Some(LockEvent::Free(LockFree::default())),
        }),
        Some("Observe") => encoded(&ObserveResponse {
            event: Some(Observed::NoLeader(NoLeader::default())),
        }),
        Some("Session") => session(),
        other => panic!("{other:?}"),
    };
    let response = Response::builder().header("content-type", "application/grpc");
    let answer = Answer {
        request: call.into_body(),
        messages: messages.into(),
        heard,
    };
    response.body(answer).unwrap()
}

/// The answers to an open session and to its first operation, which acquires a lock, and a request
/// to yield that follows the renewal.
fn session() -> Vec<Bytes> {
    let opened = SessionOpened {
        session_id: "id".to_owned(),
        lease: LEASE.try_into().ok(),
        ..SessionOpened::default()
    };
    let granted = Grant {
        name: "a".to_owned(),
        hold_count: 1,
        lease: LEASE.try_into().ok(),
        valid_for: LEASE.try_into().ok(),
        watched: true,
        ..Grant::default()
    };
    let responses = [
        session_response::Response::Opened(opened),
        session_response::Response::Granted(granted.clone()),
        session_response::Response::YieldRequested(YieldRequested {
            grant: Some(granted),
            within: WAIT.try_into().ok(),
            ..YieldRequested::default()
        }),
    ];
    let frames = (0..)
        .zip(responses)
        .map(|(op_id, response)| SessionResponse {
            op_id,
            response: Some(response),
        });
    frames.flat_map(|it| encoded(&it)).collect()
}

fn encoded(message: &impl Message) -> Vec<Bytes> {
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap();
    vec![[&[0], &length.to_be_bytes()[..], &message].concat().into()]
}

// === impl Answer ===

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        while let Some(Ok(frame)) = ready!(Pin::new(&mut self.request).poll_frame(cx)) {
            self.heard.lock().extend(frame.into_data().ok());
            if let Some(message) = self.messages.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(message))));
            }
        }
        Poll::Pending
    }
}

/// A frozen coordinator that comes first hides no other.
macro_rules! reaches_the_next {
    ($($test:ident: $client:ident => $call:expr;)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $test() {
            let coordinators = Coordinators::with_frozen(&[1]);
            let $client = coordinators.client(2);
            let begun = Instant::now();
            $call.unwrap();
            assert!(begun.elapsed() < NOTICED + LEASE / 10, "{:?}", begun.elapsed());
            assert_eq!(coordinators.dialled(), [1, 2]);

            let coordinators = Coordinators::with_frozen(&[1, 2]);
            let $client = coordinators.client(2);
            let failure = $call.unwrap_err();
            assert!(failure.is_retryable(), "{failure:?}");
            assert_eq!(coordinators.dialled(), [1, 2], "a round");
        }
    )*};
}

reaches_the_next! {
    a_wait_for_a_free_lock_reaches_the_next: client => client.await_free("a", None).await;
    a_short_wait_reaches_the_next: client => client.await_free("a", Some(LEASE / 10)).await;
    a_watch_reaches_the_next: client => client.watch_lock("a").next().await;
    an_observer_reaches_the_next: client => client.observe("a", 0).next().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_at_the_next_as_long_as_that_takes() {
    let coordinators = Coordinators::default();
    let mut watch = coordinators.client(3).watch_lock("a");
    assert!(matches!(watch.next().await, Ok(LockEvent::Free(_))));
    coordinators.freeze(&[1, 2, 3]);
    let unheard = timeout(LEASE * 4, watch.next()).await;
    assert!(unheard.is_err(), "{unheard:?}");
    let tried = coordinators.dialled();
    assert!(tried.starts_with(&[1, 2, 3, 1, 2, 3]), "{tried:?}");
    coordinators.freeze(&[1, 2]);
    assert!(matches!(watch.next().await, Ok(LockEvent::Gap(_))));
    assert!(matches!(watch.next().await, Ok(LockEvent::Free(_))));
    assert_eq!(coordinators.dialled().last(), Some(&3));
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_caller_gives_up_soon_reaches_the_next() {
    let coordinators = Coordinators::with_frozen(&[1]);
    let mut watch = coordinators.client(2).watch_lock("a");
    let soon = timeout(NOTICED / 2, watch.next()).await;
    assert!(soon.is_err(), "{soon:?}");
    let next = timeout(NOTICED / 2, watch.next()).await;
    assert!(matches!(next, Ok(Ok(LockEvent::Free(_)))), "{next:?}");
}

#[test]
fn a_refusal_is_final_and_a_broken_stream_is_not() {
    let addresses = ["http://node:1", "http://node:2", "http://node:3"];
    let addresses = addresses.map(|it| it.parse().unwrap());
    let endpoints = Endpoints::new(Connector::default(), addresses.into()).unwrap();
    let mut rounds = Rounds::new(endpoints);
    let misconfigured = || Some(Error::Misconfigured("a file of this endpoint".to_owned()));
    let lost = || Some(Error::from(Status::unavailable("scripted")));
    assert!(matches!(rounds.on_failed(misconfigured()), Ok(false)));
    assert!(matches!(rounds.on_failed(lost()), Ok(false)));
    assert!(rounds.on_failed(misconfigured()).is_err(), "a round");
    rounds.on_answer();
    let pauses = [lost(), None, lost(), lost()].map(|it| rounds.on_failed(it).unwrap());
    assert_eq!(pauses, [true, false, true, false]);
    let refused = Some(Error::from(Status::not_found("scripted")));
    assert!(rounds.on_failed(refused).is_err());
}

#[tokio::test(start_paused = true)]
async fn each_close_fails_if_no_coordinator_confirms_it() {
    let coordinators = Coordinators::default();
    let session = coordinators.client(1).session().open().await.unwrap();
    let (first, second) = tokio::join!(session.clone().close(), session.close());
    for closed in [first, second] {
        assert!(matches!(closed, Err(Error::SessionEnded(_))), "{closed:?}");
    }
}

/// A session whose machine slept as many seconds as the number says, and its only guard.
async fn sleeper(coordinators: &Coordinators) -> (Session, Guard, Arc<AtomicU64>) {
    let slept = Arc::new(AtomicU64::new(0));
    let mut client = coordinators.client(1);
    let (begun, seconds) = (Instant::now(), Arc::clone(&slept));
    let uptime = move || begun.elapsed() + Duration::from_secs(seconds.load(Relaxed));
    client.endpoints.clock = Clock::new(move || begun.elapsed(), move || Some(uptime()));
    let session = client.session().open().await.unwrap();
    let guard = session.lock("a").owner("").acquire().await.unwrap();
    assert_eq!(guard.valid_for(), LEASE);
    (session, guard, slept)
}

/// Whether it is that, but for the resolution of the uptime.
fn is_about(time: Duration, expected: Duration) -> bool {
    time >= expected && time <= expected + Duration::from_millis(20)
}

/// tokio's clock stands still meanwhile, but not the store's.
#[tokio::test(start_paused = true)]
async fn what_is_held_does_not_last_longer_because_the_machine_slept() {
    let (_session, guard, slept) = sleeper(&Coordinators::default()).await;
    slept.store(10, Relaxed);
    sleep(Duration::from_secs(1)).await;
    let valid_for = guard.valid_for();
    let left = Duration::from_secs(LEASE.as_secs() - 11);
    assert!(is_about(valid_for, left), "{valid_for:?}");
    assert_eq!(guard.valid_until(), Instant::now() + valid_for);
    assert!(!guard.lost().is_cancelled());

    slept.store(LEASE.as_secs() + 1, Relaxed);
    sleep(Duration::from_millis(10)).await;
    assert_eq!(guard.valid_for(), Duration::ZERO);
    let lost = timeout(Duration::from_secs(1), guard.lost().cancelled()).await;
    assert!(lost.is_ok());
    assert!(guard.loss().is_some_and(|it| it.is_lost()));
}

#[tokio::test(start_paused = true)]
async fn what_the_user_asks_and_is_told_is_by_the_clock_of_tokio() {
    let coordinators = Coordinators::default();
    let (session, guard, slept) = sleeper(&coordinators).await;
    let mut events = session.events();
    slept.store(10, Relaxed);
    let asked = timeout(WAIT, guard.yield_requested()).await.unwrap();
    let left = asked.deadline - Instant::now();
    assert!(left <= WAIT && left > WAIT / 2, "{left:?}");
    let told = events.next().await;
    assert!(
        matches!(&told, Some(SessionEvent::YieldRequested(it)) if it.deadline == asked.deadline),
        "{told:?}"
    );

    let waits = session.lock("b").wait_timeout(WAIT).acquire();
    assert!(timeout(Duration::from_millis(1), waits).await.is_err());
    let heard = coordinators.0.lock().heard.lock().clone();
    let requests = heard
        .iter()
        .map(|it| SessionRequest::decode(&it[5..]).unwrap());
    let waits: Vec<_> = requests
        .filter_map(|it| match it.request {
            Some(session_request::Request::Acquire(it)) if it.name == "b" => it.wait_timeout,
            _ => None,
        })
        .collect();
    assert_eq!(waits, [WAIT.try_into().unwrap()]);
}

/// Without its task nothing renews what is held, and nothing else would say so.
#[test]
fn guards_learn_that_the_runtime_is_gone() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap()
    };
    let (gone, left) = (runtime(), runtime());
    let (_session, guard, _) = gone.block_on(sleeper(&Coordinators::default()));
    drop(gone);
    assert!(guard.lost().is_cancelled());
    assert!(guard.valid_until() <= Instant::now());
    let loss = guard.loss().unwrap().to_string();
    assert!(loss.contains("its runtime was shut down"), "{loss}");
    let released = left.block_on(guard.release()).unwrap_err();
    assert!(released.is_lost(), "{released}");
}
