//! `lockkeeper run` with real coordinators on a real Redis: commands under one lock never overlap,
//! whatever happens.

use std::{fs, path::PathBuf};

use crate::prelude::*;
use crate::steps::{expect_only_records, freeze_between_renewals, lease_end};

/// Long enough to stop a command in steps.
const LEASE: Duration = secs(3);

/// A folder for what commands write. Commands that would run for ever end when it goes.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(TempDir::new().unwrap());
        fs::write(place.path("alive"), "").unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn until_lines(&self, name: &str, count: usize) {
        eventually("so many lines were written", || async {
            self.lines(name).len() >= count
        })
        .await;
    }

    /// `lockkeeper run build FLAGS -- sh -c SCRIPT` in this folder.
    fn run(&self, coordinator: &Coordinator, flags: &[&str], script: &str) -> Child {
        let mut command = lockkeeper(coordinator, &["run", "build"]);
        command.args(flags).args(["--", "sh", "-c", script]);
        command.current_dir(self.0.path()).spawn().unwrap()
    }

    /// Runs a stubborn command: its `lockkeeper run`, its process, and its token.
    async fn stubborn(&self, coordinator: &Coordinator) -> (Child, Pid, u64) {
        let run = self.run(coordinator, &[], STUBBORN);
        self.until_lines("started", 1).await;
        let (process, token) = started(&self.lines("started")[0]);
        (run, process, token)
    }

    /// The next stubborn command has a larger token, by which a resource can tell them apart, and
    /// ends when it is told to.
    async fn expect_next(&self, next: Child, token: u64) {
        self.until_lines("started", 2).await;
        let (_, next_token) = started(&self.lines("started")[1]);
        assert!(next_token > token);
        fs::remove_file(self.path("alive")).unwrap();
        ended(next, 0).await;
    }

    /// The stubborn command lives on with its token until it is told to end.
    async fn expect_to_go_on(&self, coordinator: &Coordinator, run: Child) {
        let (process, token) = started(&self.lines("started")[0]);
        // Longer than the lease was when the coordinator ended.
        tokio::time::sleep(LEASE + millis(500)).await;
        assert!(kill(process, None).is_ok(), "the command was stopped");
        let seen = coordinator.client().await.describe("build").await;
        assert_eq!((seen.holders.len(), seen.last_fencing_token), (1, token));
        fs::remove_file(self.path("alive")).unwrap();
        ended(run, 0).await;
    }
}

/// Writes its process and its token, cannot be ended by TERM, and goes on until the test ends it.
const STUBBORN: &str = "trap '' TERM; echo $$ $LOCKKEEPER_FENCING_TOKEN >> started; \
    while [ -e alive ]; do sleep 0.02; done";

/// The process and the token that a stubborn command wrote.
fn started(line: &str) -> (Pid, u64) {
    let (id, token) = line.split_once(' ').unwrap();
    (Pid::from_raw(id.parse().unwrap()), token.parse().unwrap())
}

/// Waits for the end of a process that is not ours, and says when that was.
async fn death_of(process: Pid) -> Instant {
    eventually("the command is dead", || async {
        kill(process, None).is_err()
    })
    .await;
    Instant::now()
}

/// `lockkeeper run` has ended with this code.
async fn ended(run: Child, code: i32) {
    let output = run.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

/// The command dies before its lease does.
async fn dead_before(process: Pid, end: Instant) {
    let dead_at = death_of(process).await;
    let early = end.saturating_duration_since(dead_at);
    measured("dead before the end of the lease", early);
    assert!(dead_at < end, "{:?} late", dead_at - end);
}

fn settings(store: &str) -> Settings {
    settings_on(store).with("session.lease", "3s")
}

async fn one_coordinator() -> (RedisServer, Coordinator) {
    let redis = RedisServer::start().await;
    let coordinator = Coordinator::start(&settings(&redis.url())).await;
    (redis, coordinator)
}

#[tokio::test]
async fn a_release_by_force_waits_until_the_command_is_dead() {
    let (_redis, first, second) = two_coordinators(settings).await;
    let next = "kill -0 $(cut -d ' ' -f 1 started) 2> kill && echo both >> log; echo next >> log";
    // The coordinator that has the command's session tells it at once; the other one's tells it at
    // its next renewal.
    for operator in [&first, &second] {
        let place = Place::new();
        let (run, ..) = place.stubborn(&first).await;
        let waiting = place.run(&second, &[], next);
        until_waiting(&second.client().await, "build", 1).await;
        let reason = ["force-release", "build", "--reason", "it hangs", "--yes"];
        let forced = lockkeeper(operator, &reason).output().await.unwrap();
        assert!(forced.status.success(), "{forced:?}");
        ended(waiting, 0).await;
        assert_eq!(place.lines("log"), ["next"]);
        ended(run, 76).await;
    }
}

#[tokio::test]
async fn a_command_whose_lock_was_deleted_is_killed_when_it_is_granted_anew() {
    let (redis, first, second) = two_coordinators(settings).await;
    // The coordinator that has the session of the first command sees the new grant; the other one's
    // is seen with the next renewal.
    let killed = LEASE / 6 + millis(700);
    for (grants, at_most) in [(&first, killed), (&second, LEASE / 3 + killed)] {
        let place = Place::new();
        let (run, process, _) = place.stubborn(&first).await;
        redis.command(&["DEL", "build"]).await;
        let next = place.run(grants, &[], "echo next >> log; sleep 4");
        place.until_lines("log", 1).await;
        let granted = Instant::now();
        let both = death_of(process).await - granted;
        measured("a deleted lock, granted anew: both commands run", both);
        assert!(both < at_most, "{both:?}");
        ended(run, 76).await;
        ended(next, 0).await;
    }
}

#[tokio::test]
async fn commands_under_one_lock_never_overlap() {
    const ROUNDS: usize = 3;
    const AT_ONCE: usize = 6;
    let (redis, first, second) = two_coordinators(settings).await;
    let place = Place::new();
    let script = "echo begin $LOCKKEEPER_FENCING_TOKEN >> log; sleep 0.05; \
        echo end $LOCKKEEPER_FENCING_TOKEN >> log; exit 7";
    for _ in 0..ROUNDS {
        let coordinators = [&first, &second].into_iter().cycle();
        let runs: Vec<_> = coordinators
            .take(AT_ONCE)
            .map(|coordinator| place.run(coordinator, &[], script))
            .collect();
        for run in runs {
            ended(run, 7).await;
        }
    }
    let mut last_token = 0;
    let lines = place.lines("log");
    assert_eq!(lines.len(), ROUNDS * AT_ONCE * 2);
    for pair in lines.chunks(2) {
        let token = pair[0]
            .strip_prefix("begin ")
            .unwrap_or_else(|| panic!("{lines:?}"));
        assert_eq!(pair[1], format!("end {token}"), "{lines:?}");
        let token: u64 = token.parse().unwrap();
        assert!(token > last_token, "{lines:?}");
        last_token = token;
    }
    expect_only_records(&redis).await;
}

#[tokio::test]
async fn a_frozen_store_stops_the_command_before_another_can_run() {
    let (redis, coordinator) = one_coordinator().await;
    let place = Place::new();
    let (run, process, token) = place.stubborn(&coordinator).await;
    let next = place.run(&coordinator, &[], STUBBORN);
    until_waiting(&coordinator.client().await, "build", 1).await;

    let end = freeze_between_renewals(&redis, "build", LEASE).await.at;
    dead_before(process, end).await;
    tokio::time::sleep_until(end + millis(200)).await;
    redis.cont();
    ended(run, 76).await;
    place.expect_next(next, token).await;
    expect_only_records(&redis).await;
}

#[tokio::test]
async fn a_killed_coordinator_stops_the_command_before_another_can_run() {
    let (redis, first, second) = two_coordinators(settings).await;
    let place = Place::new();
    let (run, process, token) = place.stubborn(&first).await;
    let next = place.run(&second, &[], STUBBORN);
    until_waiting(&second.client().await, "build", 1).await;

    first.kill();
    let end = lease_end(&redis, "build").await;
    dead_before(process, end).await;
    assert_eq!(place.lines("started").len(), 1, "the other runs already");
    ended(run, 76).await;
    place.expect_next(next, token).await;
}

#[tokio::test]
async fn a_coordinator_that_is_back_in_time_is_not_noticed_by_the_command() {
    let (redis, mut coordinator) = one_coordinator().await;
    let place = Place::new();
    let (run, ..) = place.stubborn(&coordinator).await;
    coordinator.kill();
    coordinator.restart_on_same_address().await;
    place.expect_to_go_on(&coordinator, run).await;
    expect_only_records(&redis).await;
}

#[tokio::test]
async fn a_drained_coordinator_passes_the_command_on_to_its_successor() {
    let (redis, mut coordinator) = one_coordinator().await;
    let place = Place::new();
    let (run, ..) = place.stubborn(&coordinator).await;
    coordinator.signal(Signal::SIGTERM);
    assert_eq!(coordinator.exit().await.code(), Some(0));
    coordinator.restart_on_same_address().await;
    place.expect_to_go_on(&coordinator, run).await;
    expect_only_records(&redis).await;
}

#[tokio::test]
async fn a_signal_while_waiting_leaves_nothing() {
    let (redis, coordinator) = one_coordinator().await;
    let mut client = coordinator.client().await;
    let mut holder = client.open().await;
    holder.acquire("build").await;
    let place = Place::new();
    let run = place.run(&coordinator, &["--wait", "60s"], "echo started >> started");
    until_waiting(&client, "build", 1).await;
    let process = Pid::from_raw(run.id().unwrap().try_into().unwrap());
    kill(process, Signal::SIGTERM).unwrap();
    ended(run, 143).await;
    until_waiting(&client, "build", 0).await;
    holder.close().await.unwrap();
    expect_only_records(&redis).await;
    assert!(place.lines("started").is_empty());
}

#[tokio::test]
async fn run_that_is_killed_leaves_the_lock_to_its_lease() {
    let (redis, coordinator) = one_coordinator().await;
    let place = Place::new();
    let (mut run, process, token) = place.stubborn(&coordinator).await;
    let next = place.run(&coordinator, &[], STUBBORN);
    until_waiting(&coordinator.client().await, "build", 1).await;

    run.kill().await.unwrap();
    let end = lease_end(&redis, "build").await;
    place.until_lines("started", 2).await;
    let begun = Instant::now();
    assert!(begun > end - millis(50), "{:?} too early", end - begun);
    assert!(kill(process, None).is_ok(), "nobody was left to stop it");
    place.expect_next(next, token).await;
    death_of(process).await;
}
