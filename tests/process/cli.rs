//! The command line against a coordinator that says what the test wants.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::fake::{Fake, TOKEN};

const DEADLINE: Duration = Duration::from_secs(20);

/// Long enough for a loaded machine to renew in time.
const LEASE: Duration = Duration::from_secs(3);

/// A folder for what commands leave behind. Commands that would run for ever end when it goes.
struct Place(TempDir);

/// A command that was started, ended with this value.
struct Started(Option<Child>);

fn lockkeeper(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command
        .args(arguments)
        .env_remove("LOCKKEEPER_SERVER")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn fake() -> Fake {
    Fake::start(LEASE)
}

fn ask(fake: &Fake, arguments: &[&str]) -> Output {
    let server = format!("http://{}", fake.address);
    lockkeeper(arguments)
        .env("LOCKKEEPER_SERVER", server)
        .output()
        .unwrap()
}

/// `lockkeeper run orders FLAGS -- sh -c SCRIPT` in `place`.
fn start(fake: &Fake, place: &Place, flags: &[&str], script: &str) -> Started {
    let server = fake.address.to_string();
    let mut command = lockkeeper(&["run", "orders", "--server", &server]);
    command
        .args(flags)
        .args(["--", "sh", "-c", script])
        .current_dir(place.0.path());
    Started(Some(command.spawn().unwrap()))
}

/// A script that says it runs, and ends when the test does.
fn for_ever(prelude: &str) -> String {
    format!("{prelude}; touch alive started; while [ -e alive ]; do sleep 0.02; done")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    #[track_caller]
    fn wait_for(&self, name: &str) {
        eventually(name, || self.has(name));
    }
}

impl Started {
    fn signal(&self, signal: Signal) {
        let id = self.0.as_ref().unwrap().id();
        kill(Pid::from_raw(i32::try_from(id).unwrap()), signal).unwrap();
    }

    #[track_caller]
    fn end(mut self) -> Output {
        let mut child = self.0.take().unwrap();
        eventually("the end of lockkeeper", || {
            child.try_wait().unwrap().is_some()
        });
        child.wait_with_output().unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

// === run ===

#[test]
fn run_passes_the_exit_code_on_and_gives_the_lock_back() {
    let (fake, place) = (fake(), Place::new());
    let script = "echo $LOCKKEEPER_LOCK $LOCKKEEPER_FENCING_TOKEN $LOCKKEEPER_SERVER; exit 7";
    let output = start(&fake, &place, &[], script).end();
    assert_code(&output, 7);
    assert_eq!(
        stdout(&output),
        format!("orders {TOKEN} http://{}\n", fake.address)
    );
    assert_eq!(stderr(&output), "");
    assert_eq!(fake.seen(), ["open", "acquire", "renew", "close"]);
}

#[test]
fn run_tells_which_signal_killed_the_command() {
    let output = start(&fake(), &Place::new(), &[], "kill -KILL $$").end();
    assert_code(&output, 137);
}

#[test]
fn run_starts_nothing_without_the_lock() {
    let (fake, place) = (fake(), Place::new());
    fake.set(|it| it.is_busy = true);
    let output = start(&fake, &place, &["--no-wait"], "touch started").end();
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("orders: held by another"),
        "{output:?}"
    );
    assert_code(
        &start(&fake, &place, &["-n", "-E", "9"], "touch started").end(),
        9,
    );
    assert!(!place.has("started"));
}

#[test]
fn run_says_why_a_command_cannot_be_started() {
    let (fake, place) = (fake(), Place::new());
    assert_code(
        &ask(&fake, &["run", "orders", "--", "no-such-command"]),
        127,
    );
    let folder = place.0.path().to_str().unwrap();
    assert_code(&ask(&fake, &["run", "orders", "--", folder]), 126);
    assert_eq!(
        fake.seen().iter().filter(|word| *word == "close").count(),
        2
    );
}

#[test]
fn run_stops_the_command_when_the_lock_is_lost() {
    let (fake, place) = (fake(), Place::new());
    let script = for_ever("trap 'touch stopped; exit 0' TERM");
    let run = start(&fake, &place, &[], &script);
    place.wait_for("started");
    fake.tell_lost();
    let output = run.end();
    assert_code(&output, 76);
    assert!(place.has("stopped"));
    assert!(
        stderr(&output).contains("lost the lock orders: somebody else holds it"),
        "{output:?}"
    );
}

#[test]
fn run_kills_a_command_that_does_not_stop() {
    let (fake, place) = (fake(), Place::new());
    let script = for_ever("trap '' TERM; echo $$ > id");
    let run = start(&fake, &place, &["--kill-after", "200ms"], &script);
    place.wait_for("started");
    fake.tell_lost();
    assert_code(&run.end(), 76);
    assert_gone(&place);
}

#[test]
fn run_stops_a_command_that_has_filled_stderr() {
    let (fake, place) = (fake(), Place::new());
    // Nobody reads the pipe, and a write to it blocks as soon as it is full.
    let script = for_ever("trap '' TERM; echo $$ > id; yes >&2 & echo $! > yes");
    let mut run = start(&fake, &place, &["--kill-after", "200ms"], &script);
    place.wait_for("started");
    let id = fs::read_to_string(place.path("yes")).unwrap();
    let stat = format!("/proc/{}/stat", id.trim());
    eventually("the pipe is full", || {
        fs::read_to_string(&stat).unwrap().contains("(yes) S")
    });
    fake.tell_lost();
    let child = run.0.as_mut().unwrap();
    eventually("the end of lockkeeper", || {
        child.try_wait().unwrap().is_some()
    });
    assert_gone(&place);
}

#[test]
fn run_survives_a_broken_stream() {
    let (fake, place) = (fake(), Place::new());
    let run = start(
        &fake,
        &place,
        &[],
        "touch started; while [ ! -e end ]; do sleep 0.02; done",
    );
    place.wait_for("started");
    fake.break_stream();
    eventually("resumed", || fake.has_seen("resume"));
    fs::write(place.path("end"), "").unwrap();
    let output = run.end();
    assert_code(&output, 0);
    assert!(stderr(&output).contains("trying to resume"), "{output:?}");
    eventually("closed", || fake.has_seen("close"));
    assert!(!fake.has_seen("half-close"), "{:?}", fake.seen());
}

#[test]
fn run_ends_the_command_in_time_when_the_coordinator_freezes() {
    let (fake, place) = (fake(), Place::new());
    let run = start(&fake, &place, &[], &for_ever("trap '' TERM; echo $$ > id"));
    place.wait_for("started");
    fake.set(|it| it.is_frozen = true);
    assert_dead_in_time(&fake, &place, run);
}

#[test]
fn run_ends_the_command_in_time_when_the_coordinator_is_gone() {
    let (mut fake, place) = (fake(), Place::new());
    let run = start(&fake, &place, &[], &for_ever("trap '' TERM; echo $$ > id"));
    place.wait_for("started");
    fake.crash();
    assert_dead_in_time(&fake, &place, run);
}

#[track_caller]
fn assert_dead_in_time(fake: &Fake, place: &Place, run: Started) {
    eventually("the end of the command", || is_gone(place));
    let dead_at = Instant::now();
    assert!(
        dead_at < fake.promised_until(),
        "{:?} late",
        dead_at - fake.promised_until()
    );
    let output = run.end();
    assert_code(&output, 76);
    assert!(
        stderr(&output).contains("could not be renewed in time"),
        "{output:?}"
    );
    assert!(!fake.has_seen("half-close"), "{:?}", fake.seen());
}

/// Whether the command that wrote its id has ended.
fn is_gone(place: &Place) -> bool {
    let id = fs::read_to_string(place.path("id")).unwrap();
    kill(Pid::from_raw(id.trim().parse().unwrap()), None).is_err()
}

#[track_caller]
fn assert_gone(place: &Place) {
    assert!(is_gone(place));
}

#[test]
fn a_signal_while_waiting_ends_the_wait_cleanly() {
    let (fake, place) = (fake(), Place::new());
    fake.set(|it| it.is_busy = true);
    let run = start(&fake, &place, &["--wait", "1h"], "touch started");
    eventually("waiting", || fake.has_seen("acquire"));
    run.signal(Signal::SIGUSR1);
    // The others may be ignored from the start: by nohup, or in a shell's background.
    run.signal(Signal::SIGTERM);
    assert_code(&run.end(), 143);
    assert_eq!(fake.seen(), ["open", "acquire", "cancel", "close"]);
    assert!(!place.has("started"));
}

#[test]
fn signals_are_passed_on_to_the_command_and_its_children() {
    let (fake, place) = (fake(), Place::new());
    let inner = "sh -c 'trap \"touch inner; exit\" TERM; touch alive started; while [ -e alive ]; do sleep 0.02; done' & wait";
    let script = format!("trap 'touch outer; wait; exit 5' TERM; {inner}");
    let run = start(&fake, &place, &[], &script);
    place.wait_for("started");
    run.signal(Signal::SIGTERM);
    assert_code(&run.end(), 5);
    assert!(place.has("outer") && place.has("inner"));
    assert_eq!(fake.seen().last().unwrap(), "close");
}

// === calls ===

#[test]
fn acquire_prints_the_grant() {
    let fake = fake();
    let output = ask(
        &fake,
        &[
            "acquire",
            "orders",
            "--wait",
            "1500ms",
            "--lease",
            "3s",
            "--request-id",
            "r",
        ],
    );
    assert_code(&output, 0);
    assert_eq!(
        stdout(&output),
        format!(
            "granted orders mode=exclusive owner=0 fencing_token={TOKEN} hold_count=1 lease=3s valid_for=2s940ms\n"
        )
    );
    let waiting = "lockkeeper: waiting for orders at position 1, the holder's lease ends in 12s\n";
    assert_eq!(stderr(&output), waiting);
    let request = &fake.seen()[0];
    for part in ["seconds: 1, nanos: 500000000", "request_id: \"r\""] {
        assert!(request.contains(part), "{request}");
    }
    let output = ask(&fake, &["acquire", "orders", "--output", "json"]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["granted"]["fencingToken"], TOKEN.to_string());
    fake.set(|it| it.is_busy = true);
    let output = ask(&fake, &["acquire", "orders", "--output", "json"]);
    assert_code(&output, 1);
    assert_eq!(
        stdout(&output),
        "{\"notGranted\":{\"holderRemainingLease\":\"12s\",\"reason\":\"NOT_GRANTED_REASON_WAIT_TIMEOUT\"}}\n"
    );
}

#[test]
fn the_other_calls_print_their_answers() {
    let fake = fake();
    let text = |arguments: &[&str]| stdout(&ask(&fake, arguments));
    assert!(text(&["try-acquire", "orders"]).starts_with("granted orders mode=exclusive"));
    assert_eq!(
        text(&["release", "orders", "--owner", "0"]),
        "released orders\n"
    );
    assert!(
        text(&["renew", "orders", "--owner", "0"]).starts_with("renewed orders mode=exclusive")
    );
    let token = TOKEN.to_string();
    assert_code(&ask(&fake, &["check-token", "orders", &token]), 0);
    assert_code(&ask(&fake, &["check-token", "orders", "1"]), 1);
    fake.set(|it| it.is_busy = true);
    assert_code(&ask(&fake, &["try-acquire", "orders"]), 1);
}

#[test]
fn describe_prints_who_holds_and_who_waits() {
    let fake = fake();
    let text = |arguments: &[&str]| stdout(&ask(&fake, arguments));
    let lines = [
        &format!(
            "held orders mode=read holders=12 last_fencing_token={TOKEN} remaining_lease=1s500ms"
        ),
        "  holder owner=0 mode=read hold_count=2 remaining_lease=1s500ms session_digest=5feceb66ffc86f38 client_name=search",
        "  and 11 more holders",
        "  waiter position=1 owner=1 mode=write waiting_for=2s session_digest= client_name=",
        "  and 2 more waiters",
        "",
    ];
    assert_eq!(text(&["describe", "orders"]), lines.join("\n"));
    let described = text(&["describe", "orders", "--output", "json"]);
    let described: serde_json::Value = serde_json::from_str(&described).unwrap();
    let expected = serde_json::json!({
        "name": "orders",
        "mode": "LOCK_MODE_READ",
        "holders": [{
            "sessionDigest": "5feceb66ffc86f38", "owner": "0", "holdCount": 2, "clientName": "search",
            "mode": "LOCK_MODE_READ", "remainingLease": "1.500s",
        }],
        "remainingLease": "1.500s",
        "lastFencingToken": TOKEN.to_string(),
        "waiters": [{
            "sessionDigest": "", "owner": "1", "clientName": "", "position": 1, "waitingFor": "2s",
            "mode": "LOCK_MODE_WRITE",
        }],
        "waiterCount": 3,
        "holderCount": 12,
    });
    assert_eq!(described, expected);
}

#[test]
fn a_mode_is_asked_for_as_it_was_given() {
    for (word, name) in [
        ("fair", "LOCK_MODE_FAIR"),
        ("read", "LOCK_MODE_READ"),
        ("write", "LOCK_MODE_WRITE"),
    ] {
        let fake = fake();
        let granted = format!("orders mode={word} owner=0 fencing_token={TOKEN}");
        for (arguments, answer) in [
            (&["acquire", "orders"][..], format!("granted {granted}")),
            (&["try-acquire", "orders"], format!("granted {granted}")),
            (
                &["renew", "orders", "--owner", "0"],
                format!("renewed {granted}"),
            ),
            (
                &["release", "orders", "--owner", "0"],
                "released orders".to_owned(),
            ),
        ] {
            let output = ask(&fake, &[arguments, &["--mode", word]].concat());
            assert_code(&output, 0);
            assert!(stdout(&output).starts_with(&answer), "{output:?}");
        }
        let place = Place::new();
        assert_code(&start(&fake, &place, &["-m", word], "exit 7").end(), 7);
        let seen = fake.seen();
        let asked = |frame: &str| seen.iter().rposition(|seen| seen == frame).unwrap();
        assert_eq!(
            (&*seen[asked("acquire") - 1], &*seen[asked("renew") - 1]),
            (name, name)
        );
        let calls = seen[1..].iter().take_while(|seen| *seen == name).count();
        assert_eq!(calls, 3, "{seen:?}");
    }
}

#[test]
fn several_locks_are_asked_for_at_once() {
    let fake = fake();
    let modes = ["a", "b", "--mode", "write", "--fair", "c", "--read", "d"];
    let output = ask(
        &fake,
        &[&["acquire-all"][..], &modes, &["-w", "1m"]].concat(),
    );
    assert_code(&output, 0);
    let line = |(name, mode): (&str, &str)| {
        format!(
            "granted {name} mode={mode} owner=0 fencing_token={TOKEN} hold_count=1 lease=3s valid_for=2s940ms\n"
        )
    };
    let locks = [("a", "write"), ("b", "write"), ("c", "fair"), ("d", "read")];
    let lines: String = locks.map(line).concat();
    assert_eq!(stdout(&output), lines);
    let waiting = "lockkeeper: waiting for a at position 1, the holder's lease ends in 12s\n";
    assert_eq!(stderr(&output), waiting);
    assert!(fake.seen()[0].contains("seconds: 60"), "{:?}", fake.seen());
    let output = ask(&fake, &[&["try-acquire-all"][..], &modes].concat());
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), lines));
    let json = |arguments: &[&str]| {
        let output = ask(&fake, &[arguments, &["--output", "json"]].concat());
        let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        (output.status.code().unwrap(), json)
    };
    let (_, granted) = json(&["acquire-all", "a", "b"]);
    assert_eq!(granted["granted"]["grants"][1]["name"], "b");
    let release = [
        "release-all",
        "a",
        "twice",
        "lost",
        "--read",
        "r",
        "--owner",
        "0",
    ];
    let output = ask(&fake, &release);
    assert_code(&output, 1);
    let lines = "released a\nstill held twice hold_count=1\nnot held lost\nreleased r\n";
    assert_eq!(stdout(&output), lines);
    let (code, released) = json(&["release-all", "a", "--read", "r", "--owner", "0"]);
    assert_eq!(
        (code, &released["locks"][1]["mode"]),
        (0, &"LOCK_MODE_READ".into())
    );

    fake.set(|it| it.is_busy = true);
    let output = ask(&fake, &["acquire-all", "a", "b"]);
    assert_code(&output, 1);
    let refused = "not granted a, b: the wait ran out, the holder's lease ends in 12s\n";
    assert_eq!(stdout(&output), refused);
    let (code, refused) = json(&["try-acquire-all", "a", "b"]);
    assert_eq!((code, &refused["busyName"]), (1, &"a".into()));
}

#[test]
fn run_holds_several_locks_and_tells_their_tokens() {
    let (fake, place) = (fake(), Place::new());
    let script = "echo $LOCKKEEPER_LOCK; echo \"$LOCKKEEPER_FENCING_TOKENS\"; exit 7";
    let run = start(&fake, &place, &["--also", "a", "--read", "b"], script);
    let output = run.end();
    assert_code(&output, 7);
    let expected = format!("orders\n{TOKEN} orders\n{TOKEN} a\n{TOKEN} b\n");
    assert_eq!(stdout(&output), expected);
    let seen: Vec<_> = fake.seen();
    let words: Vec<_> = seen
        .iter()
        .filter(|word| !word.starts_with("LOCK"))
        .collect();
    let expected = ["open", "acquire_all", "renew", "renew", "renew", "close"];
    assert_eq!(words, expected);
}

#[test]
fn failures_have_one_line_and_their_exit_code() {
    let mut fake = fake();
    for (arguments, code, message) in [
        (
            &["release", "orders", "--owner", "1"][..],
            1,
            "lockkeeper: NOT_OWNER: no\n",
        ),
        (
            &["release", "orders", "--owner", "unknown"],
            75,
            "lockkeeper: OUTCOME_UNKNOWN: no\n",
        ),
        (
            &["release", "orders", "--owner", "writer", "--mode", "write"],
            64,
            "lockkeeper: WRONG_KIND: no\n",
        ),
        (&["describe", ""], 64, "lockkeeper: INVALID_NAME: no\n"),
    ] {
        let output = ask(&fake, arguments);
        assert_code(&output, code);
        assert_eq!(stderr(&output), message);
        assert_eq!(stdout(&output), "");
    }
    fake.crash();
    while !fake.keeps_address() {
        fake = self::fake();
        fake.crash();
    }
    for arguments in [
        &["describe", "orders"][..],
        &["run", "orders", "--", "true"],
    ] {
        let output = ask(&fake, arguments);
        assert_code(&output, 69);
        assert_eq!(stderr(&output).lines().count(), 1, "{output:?}");
        assert!(
            stderr(&output).contains("no coordinator at http://127.0.0.1:"),
            "{output:?}"
        );
    }
}

// === usage and settings ===

#[test]
fn wrong_usage_has_its_exit_code() {
    for arguments in [
        &[][..],
        &["run", "orders"],
        &["run", "orders", "-n", "-w", "1s", "--", "true"],
        &["acquire", "orders", "--wait", "soon"],
        &["acquire", "orders", "--mode", "shared"],
        &["acquire-all"],
        &["run", "pool", "--permits", "1", "--read", "a", "--", "true"],
        &["semaphore"],
        &["semaphore", "renew", "pool", "--owner", "o"],
        &["latch", "set", "start"],
        &["describe", "orders", "--server", "redis://example.com"],
        &["describe", "orders", "--key-file", "key.pem"],
        &["serve", "--set", "nothing"],
    ] {
        let output = lockkeeper(arguments).output().unwrap();
        assert_code(&output, 64);
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
}

#[test]
fn help_has_examples_first_and_exit_codes_last() {
    for arguments in [&["--help"][..], &["run", "--help"], &["acquire", "--help"]] {
        let output = lockkeeper(arguments).output().unwrap();
        assert_code(&output, 0);
        let help = stdout(&output);
        let at = |word| {
            help.find(word)
                .unwrap_or_else(|| panic!("no {word}: {help}"))
        };
        assert!(
            at("Examples:") < at("Usage:") && at("Usage:") < at("Exit codes:"),
            "{help}"
        );
    }
}

#[test]
fn serve_prints_its_settings_and_refuses_what_is_wrong() {
    let output = lockkeeper(&[
        "serve",
        "--print-config",
        "--listen",
        "127.0.0.1:1",
        "--set",
        "session.lease=9s",
    ])
    .env("LOCKKEEPER__SERVER__LISTEN", "127.0.0.1:2")
    .env("LOCKKEEPER__SESSION__SECRET", "a secret of some length")
    .output()
    .unwrap();
    assert_code(&output, 0);
    let printed: toml::Table = stdout(&output).parse().unwrap();
    assert_eq!(printed["server"]["listen"].as_str(), Some("127.0.0.1:1"));
    assert_eq!(printed["session"]["lease"].as_str(), Some("9s"));
    assert_eq!(printed["session"]["secret"].as_str(), Some("REDACTED"));
    let output = lockkeeper(&["serve", "--store", "http://x"])
        .env("LOCKKEEPER__SERVER__LISTN", "x")
        .output()
        .unwrap();
    assert_code(&output, 78);
    assert_eq!(
        stderr(&output),
        "lockkeeper: unknown key server.listn (environment variable LOCKKEEPER__SERVER__LISTN)\n"
    );
}
