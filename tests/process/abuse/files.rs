//! More connections than the process may have open files.

use std::{collections::BTreeMap, fs, process::Command};

use super::{MIB, Scene, attempt, measured_share};
use crate::prelude::*;
use crate::telemetry::http::get;

const GROWN_MAX: u64 = 48 * MIB;

/// Failures to accept that are looked at: a second of them.
const FAILURES: u32 = 20;

/// The coordinator pauses for 50 ms after each.
const FAILURES_PER_SECOND_MAX: f64 = 25.0;

/// The messages of its log, and how often each was written.
fn messages(coordinator: &Coordinator) -> BTreeMap<String, usize> {
    let mut messages = BTreeMap::new();
    for line in coordinator.log().lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let message = event["message"].as_str().unwrap_or_default().to_owned();
        *messages.entry(message).or_default() += 1;
    }
    messages
}

/// The time that it has had on processors.
fn cpu_time(coordinator: &Coordinator) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", coordinator.pid())).unwrap();
    // The name, in parentheses, may contain blanks; user and system time are the 12th and the 13th
    // word behind it, in hundredths of seconds.
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let words = rest.split(' ').skip(11).take(2);
    let hundredths: u64 = words.map(|word| word.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * hundredths)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_files_left_it_serves_who_is_there_and_accepts_others_when_some_have_gone() {
    const FILES: usize = 100;
    let settings = Settings::on("embedded:").with("admin.listen", "127.0.0.1:0");
    let scene = Scene::begin_with(settings).await;
    let coordinator = &scene.coordinator;
    let address = coordinator.address();
    let pid = coordinator.pid().to_string();
    let limit = format!("--nofile={FILES}:{FILES}");
    let limited = Command::new("prlimit")
        .args(["--pid", &pid, &limit])
        .status();
    assert!(limited.unwrap().success());
    let (begun, used) = (Instant::now(), cpu_time(coordinator));
    let connect = || TcpStream::connect(address);
    let open = join_all((0..2 * FILES).map(|_| connect())).await;
    eventually("it cannot accept", || async {
        messages(coordinator).contains_key("cannot accept connections")
    })
    .await;
    // How often it tries, and says so, in this time is what is looked at. The bystander, who is
    // connected, is served meanwhile: `Scene::end` sees to that.
    tokio::time::sleep(secs(1)).await;
    let used = cpu_time(coordinator).saturating_sub(used);
    measured_share(
        "processor time while it cannot accept",
        used,
        begun.elapsed(),
    );
    drop(open);
    let mut client = coordinator.client().await;
    let tried = client.try_acquire("afterwards", "a", secs(1)).await;
    assert!(tried.unwrap().acquired);

    let lines = messages(coordinator)["cannot accept connections"];
    assert!(lines <= 2, "{lines}");
    let (_, page) = get(coordinator.admin_address().await, "/metrics", "*/*").await;
    let name = "lockkeeper_connections_refused_total{reason=\"accept\"} ";
    let failures = page.lines().find_map(|line| line.strip_prefix(name));
    let failures: u32 = failures.unwrap().parse().unwrap();
    let most = FAILURES_PER_SECOND_MAX * begun.elapsed().as_secs_f64();
    assert!(
        failures >= FAILURES / 2 && f64::from(failures) <= most,
        "{failures}"
    );
    scene.end(GROWN_MAX).await;
}

/// Who has no place is told so at once, and the coordinator can still open what it needs itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_files_are_few_some_are_kept_for_the_store() {
    const FILES: u32 = 128;
    const ROOM: usize = 64;
    let mut redis = RedisServer::start().await;
    let settings = Settings::on(&redis.url()).with_files(FILES, FILES);
    let coordinator = Coordinator::start(&settings).await;
    let warning =
        "the limit of open files leaves room for fewer connections than server.connections_max";
    assert_eq!(messages(&coordinator).get(warning), Some(&1));
    let mut client = coordinator.client().await;
    let attempts = (0..FILES).map(|_| attempt(coordinator.address(), None));
    let attempts = join_all(attempts).await;
    let held = attempts.iter().flatten().count();
    assert_eq!(held + 1, ROOM, "with the client's");
    redis.kill();
    redis.restart_on_same_port().await;
    eventually("the store is back", || {
        let mut client = client.clone();
        async move { client.try_acquire("build", "a", secs(1)).await.is_ok() }
    })
    .await;
    assert!(client.release("build", "a").await.unwrap().released);
    assert!(!messages(&coordinator).contains_key("cannot accept connections"));
    drop(attempts);
    eventually("others are let in", || async {
        attempt(coordinator.address(), None).await.is_some()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_files_is_raised_as_far_as_it_may_be() {
    const CLIENTS: usize = 300;
    let settings = Settings::on("embedded:").with_files(128, 1024);
    let coordinator = Coordinator::start(&settings).await;
    assert_eq!(
        messages(&coordinator).get("the limit of open files was raised"),
        Some(&1)
    );
    let attempts = (0..CLIENTS).map(|_| attempt(coordinator.address(), None));
    let held = join_all(attempts).await.into_iter().flatten().count();
    assert_eq!(held, CLIENTS);
}
