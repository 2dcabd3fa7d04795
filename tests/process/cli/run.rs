//! `lockkeeper run`: the command lives no longer than its lock.

use std::fs;

use super::tool::{
    Place, Started, ask, assert_code, eventually, fake, for_ever, start, stderr, stdout,
};
use crate::fake::{Fake, TOKEN};
use crate::prelude::*;

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
        stderr(&output).contains("lost the lock orders: its lease ended"),
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
    eventually("waiting", || fake.has_seen("describe"));
    run.signal(Signal::SIGUSR1);
    // The others may be ignored from the start: by nohup, or in a shell's background.
    run.signal(Signal::SIGTERM);
    assert_code(&run.end(), 143);
    assert_eq!(
        fake.seen(),
        ["open", "acquire", "describe", "cancel", "close"]
    );
    assert!(!place.has("started"));
}

#[test]
fn signals_are_passed_on_to_the_command_and_its_children() {
    let (fake, place) = (fake(), Place::new());
    let inner = "sh -c 'trap \"touch inner; exit\" TERM; touch alive started; while [ -e alive ]; \
        do sleep 0.02; done' & wait";
    let script = format!("trap 'touch outer; wait; exit 5' TERM; {inner}");
    let run = start(&fake, &place, &[], &script);
    place.wait_for("started");
    run.signal(Signal::SIGTERM);
    assert_code(&run.end(), 5);
    assert!(place.has("outer") && place.has("inner"));
    assert_eq!(fake.seen().last().unwrap(), "close");
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
