//! By the hundred thousand and by the million: what each of them leaves behind would be seen. Fewer
//! in every run of the tests; `ABUSE_CONNECTIONS` and `ABUSE_NAMES` say how many, and
//! `COORDINATOR_BINARY` may be a release.

use std::net::Ipv4Addr;

use deadpool_redis::redis::Value;
use tokio::net::UnixStream;

use super::{MIB, Scene, attempt, measured_bytes};
use crate::prelude::*;

/// How long a coordinator may live that is asked for the most.
const AGE_MAX: Duration = secs(7200);

/// At a time.
const CONNECTIONS_AT_ONCE: usize = 200;
const NAMES_AT_ONCE: usize = 500;

/// Attempts from one address, of which `limits.connections_per_peer_max` allows as many.
const ATTEMPTS_PER_ADDRESS: usize = 10_000;

/// How many, if the environment does not say.
fn size(variable: &str, usual: usize) -> usize {
    let wanted = std::env::var(variable).ok();
    wanted.map_or(usual, |it| it.parse().expect("a number"))
}

/// `127.0.0.2` and those after it.
fn source(attempt: usize) -> Ipv4Addr {
    let number = u8::try_from(attempt / ATTEMPTS_PER_ADDRESS).unwrap();
    Ipv4Addr::new(127, 0, 0, 2 + number)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_to_connect_beyond_the_limit_are_refused_at_once() {
    let attempts = size("ABUSE_CONNECTIONS", 5000);
    // What this process and the coordinator can have open, if there may be 20,000 files.
    let limit = (attempts / 5).min(18_000);
    let settings = Settings::on("embedded:")
        .with("server.connections_max", &limit.to_string())
        .with("limits.connections_per_peer_max", &limit.to_string())
        // Nobody here answers when asked whether they live.
        .with("server.keepalive_interval", "1h")
        .with_age_max(AGE_MAX);
    let scene = Scene::begin_with(settings).await;
    let address = scene.coordinator.address();
    let begun = Instant::now();
    let (mut held, mut longest) = (Vec::new(), Duration::ZERO);
    for first in (0..attempts).step_by(CONNECTIONS_AT_ONCE) {
        let last = attempts.min(first + CONNECTIONS_AT_ONCE);
        let tries = (first..last).map(|number| async move {
            let asked = Instant::now();
            (
                attempt(address, Some(source(number))).await,
                asked.elapsed(),
            )
        });
        for (connection, took) in join_all(tries).await {
            held.extend(connection);
            longest = longest.max(took);
        }
    }
    measured("all attempts", begun.elapsed());
    measured(
        "the longest until an attempt was answered or refused",
        longest,
    );
    // The bystander has one too.
    assert_eq!(held.len() + 1, limit, "of {attempts}");
    measured_bytes("memory on top with those that were let in", scene.grown());
    let most = limit as u64 * (48 << 10) + 16 * MIB;
    assert!(scene.grown() < most, "{} of {most}", scene.grown());
    drop(held);
    eventually("they are closed here too", || async {
        scene.coordinator.open_files() < 50
    })
    .await;
    let mut client = scene.coordinator.client().await;
    let tried = client.try_acquire("afterwards", "a", secs(1)).await;
    assert!(tried.unwrap().acquired);
    scene.end(most).await;
}

/// Whoever finds no place among those that are not accepted yet tries again a second later, or on a
/// Unix-domain socket not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_come_all_at_once_find_a_place_until_they_are_accepted() {
    const CLIENTS: usize = 1000;
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("socket");
    let settings = Settings::on("embedded:").with("server.uds_path", path.to_str().unwrap());
    let coordinator = Coordinator::start(&settings).await;
    coordinator.stop();
    let over_tcp = join_all((0..CLIENTS).map(|_| TcpStream::connect(coordinator.address())));
    let over_tcp = timeout(secs(15), over_tcp).await;
    let over_tcp = over_tcp.expect("all of them are connected");
    assert!(over_tcp.iter().all(Result::is_ok));
    let over_unix = join_all((0..CLIENTS).map(|_| UnixStream::connect(&path))).await;
    assert!(over_unix.iter().all(Result::is_ok), "{over_unix:?}");
    coordinator.cont();
    let mut client = coordinator.client().await;
    let tried = client.try_acquire("build", "a", secs(1)).await;
    assert!(tried.unwrap().acquired);
}

/// What a name leaves in the store is its counter, for as long as is said here.
fn forgetful(store: &str) -> Settings {
    Settings::on(store)
        .with("limits.lease_max", "5s")
        .with("session.lease", "5s")
        .with("store.idle_token_retention", "5s")
        .with_age_max(AGE_MAX)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_nobody_uses_twice_leave_nothing_behind() {
    let scene = Scene::begin_with(forgetful("embedded:")).await;
    names_come_and_go(&scene).await;
    scene.end(48 * MIB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_nobody_uses_twice_leave_nothing_behind_on_redis() {
    let redis = RedisServer::start().await;
    let scene = Scene::begin_with(forgetful(&redis.url())).await;
    names_come_and_go(&scene).await;
    // But for those that the bystander uses.
    eventually("the store forgets them too", || async {
        let keys = redis.command(&["DBSIZE"]).await;
        matches!(keys, Value::Int(count) if count < 1500)
    })
    .await;
    scene.end(48 * MIB).await;
}

/// Each name is taken, waited for by somebody who goes away, and given back.
async fn names_come_and_go(scene: &Scene) {
    let names = size("ABUSE_NAMES", 5000);
    let mut client = scene.coordinator.client().await;
    let mut holder = client.open().await;
    let begun = Instant::now();
    let mut most = 0;
    for first in (0..names).step_by(NAMES_AT_ONCE) {
        let last = names.min(first + NAMES_AT_ONCE);
        let batch: Vec<String> = (first..last)
            .map(|number| format!("a-name-that-nobody-uses-twice-{number}"))
            .collect();
        let taken: Vec<u64> = batch
            .iter()
            .map(|name| holder.send_acquire(name, ""))
            .collect();
        for op_id in taken {
            holder.expect_granted(op_id).await;
        }
        let leaver = waiter_for(&mut client, &batch).await;
        // Half of them say that they go.
        if (first / NAMES_AT_ONCE).is_multiple_of(2) {
            leaver.close().await.unwrap();
        } else {
            drop(leaver);
        }
        let given: Vec<u64> = batch
            .iter()
            .map(|name| holder.send_release(name, ""))
            .collect();
        for op_id in given {
            let answer = holder.end(op_id).await;
            assert!(matches!(answer, Response::Released(_)), "{answer:?}");
        }
        most = most.max(scene.grown());
    }
    holder.close().await.unwrap();
    measured("all names", begun.elapsed());
    measured_bytes("the most memory on top", most);
}

/// Somebody who waits for all of these.
async fn waiter_for(client: &mut Client, names: &[String]) -> Session {
    let mut session = client.open().await;
    let waits: Vec<u64> = names
        .iter()
        .map(|name| session.send_acquire(name, ""))
        .collect();
    for op_id in waits {
        let answer = session.answer(op_id).await;
        assert!(matches!(answer, Response::Waiting(_)), "{answer:?}");
    }
    session
}
