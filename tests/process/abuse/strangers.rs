//! Callers without credentials, where credentials are required: what they cost is bounded.

use std::fs;

use lockkeeper_testkit::{
    calls::{CHECK, Connection, TRY, WATCH, framed},
    frames::{END_HEADERS, HEADERS, Raw, call_of, frame},
};

use super::{MIB, measured_bytes};
use crate::prelude::*;

/// What strangers may cost, in a build for debugging.
const GROWN_MAX: u64 = 64 * MIB;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A coordinator that requires tokens.
struct Guarded {
    coordinator: Coordinator,
    memory: u64,
    _folder: TempDir,
}

// === impl Guarded ===

impl Guarded {
    async fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let tokens = folder.path().join("tokens");
        fs::write(&tokens, format!("known {TOKEN}\n")).unwrap();
        let settings = Settings::on("embedded:")
            .with("auth.token_file", &tokens.display().to_string())
            .with("log.level", "warn,lockkeeper_server=info");
        let coordinator = Coordinator::start(&settings).await;
        let memory = coordinator.memory();
        Self {
            coordinator,
            memory,
            _folder: folder,
        }
    }

    fn grown(&self) -> u64 {
        self.coordinator.memory().saturating_sub(self.memory)
    }

    fn expect_small(&self) {
        measured_bytes("the memory on top", self.grown());
        self.coordinator.assert_alive();
        assert!(self.grown() < GROWN_MAX, "{}", self.grown());
    }

    async fn connect(&self) -> Connection {
        Connection::open(self.coordinator.address()).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_of_health_are_limited_by_connection_and_in_all() {
    let guarded = Guarded::start().await;
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(guarded.connect().await);
    }
    for connection in &connections {
        let watches = (0..200).map(|_| {
            let nothing = framed(false, 0, &[]);
            connection.call(WATCH, None, nothing, true, secs(15))
        });
        let codes = join_all(watches).await;
        let served = codes.iter().filter(|it| **it == Some(Code::Ok)).count();
        assert_eq!(served, 16, "of {} on one connection", codes.len());
        let refused = Some(Code::ResourceExhausted);
        assert!(
            codes
                .iter()
                .all(|it| *it == Some(Code::Ok) || *it == refused)
        );
    }
    guarded.expect_small();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_health_check_that_never_ends_is_refused_or_ended() {
    let guarded = Guarded::start().await;
    let connection = guarded.connect().await;
    // A large message is refused by its length alone.
    let large = framed(false, 4 << 20, &[0; 600]);
    let large = (0..20).map(|_| connection.call(CHECK, None, large.clone(), false, secs(15)));
    for code in join_all(large).await {
        let refused = [Code::OutOfRange, Code::ResourceExhausted];
        assert!(code.is_some_and(|code| refused.contains(&code)), "{code:?}");
    }
    // One of a few bytes is waited for, but not for long; nor may there be many of those.
    let half = (0..300).map(|_| {
        let half = framed(false, 20, &[0; 5]);
        connection.call(CHECK, None, half, false, secs(20))
    });
    let codes = join_all(half).await;
    let of = |code| codes.iter().filter(|it| **it == Some(code)).count();
    let (ended, refused) = (of(Code::DeadlineExceeded), of(Code::ResourceExhausted));
    assert_eq!(ended + refused, codes.len(), "{codes:?}");
    assert!(
        ended > 0 && refused > 0,
        "{ended} were ended, {refused} refused"
    );
    // The connection is as good as before.
    let checked = connection.call(CHECK, None, framed(false, 0, &[]), true, secs(15));
    assert_eq!(checked.await, Some(Code::Ok));
    guarded.expect_small();
}

/// A caller with a token, whom no rule has to allow anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_messages_of_a_connection_are_limited_together() {
    const LENGTH: u32 = 1_000_000;
    let guarded = Guarded::start().await;
    let connection = guarded.connect().await;
    let all_but_a_byte = framed(false, LENGTH, &vec![0; LENGTH as usize - 1]);
    let calls = (0..100).map(|_| {
        let body = all_but_a_byte.clone();
        connection.call(TRY, Some(TOKEN), body, false, secs(30))
    });
    let codes = join_all(calls).await;
    measured_bytes("the memory on top", guarded.grown());
    let of = |code| codes.iter().filter(|it| **it == Some(code)).count();
    let (ended, refused) = (of(Code::DeadlineExceeded), of(Code::ResourceExhausted));
    assert_eq!(ended + refused, codes.len(), "{codes:?}");
    assert!(refused > 90, "{refused} were refused");
    guarded.expect_small();
}

/// All at once, from clients that do not read the answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_calls_on_many_connections_is_taken_bit_by_bit() {
    let guarded = Guarded::start().await;
    let address = guarded.coordinator.address();
    let bursts = (0..40).map(|_| async {
        let mut raw = Raw::open_with(address, &[], false).await;
        let calls = (0..20_000).map(|number| {
            let block = call_of(CHECK);
            frame(HEADERS, END_HEADERS, 2 * number + 1, &block)
        });
        raw.flood(calls).await;
        raw
    });
    let _open = join_all(bursts).await;
    let peak = guarded.coordinator.peak_memory() - guarded.memory;
    measured_bytes("the peak on top", peak);
    assert!(peak < GROWN_MAX, "{peak}");
}

/// Strangers may have every place for strangers, but those who show a token are let in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_without_credentials_give_way_to_new_ones() {
    let guarded = Guarded::start().await;
    let mut strangers = Vec::new();
    for _ in 0..30 {
        let more = (0..100).map(|_| super::attempt(guarded.coordinator.address(), None));
        strangers.extend(join_all(more).await);
    }
    let known = guarded.connect().await;
    let tried = known.call(TRY, Some(TOKEN), framed(false, 0, &[]), true, secs(15));
    assert_eq!(tried.await, Some(Code::InvalidArgument), "it was let in");
    eventually("the oldest are closed", || async {
        guarded.coordinator.open_files() < 1500
    })
    .await;
    // Those with credentials keep their places.
    let tried = known.call(TRY, Some(TOKEN), framed(false, 0, &[]), true, secs(15));
    assert_eq!(tried.await, Some(Code::InvalidArgument));
    guarded.expect_small();
}
