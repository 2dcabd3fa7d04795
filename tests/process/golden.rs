//! What users of the command line see and scripts read, byte by byte but for what differs from run
//! to run: flags, JSON, messages, exit codes, settings. A change of it is deliberate:
//! `UPDATE_GOLDEN=1 cargo test --test process golden` writes tests/golden anew.

use std::{env, fmt::Write as _, fs, path::Path};

use crate::prelude::*;

/// Each shows the shape of an answer. They run in this order, on one embedded store.
const STORY: &[&str] = &[
    "acquire a --owner me --lease 1m",
    "acquire a --owner me",
    "try-acquire a --owner you",
    "try-acquire a --owner you --output text",
    "acquire a --owner you --wait 10ms",
    "renew a --owner me --lease 1m",
    "renew a --owner you",
    "describe a",
    "describe a --output text",
    "why a",
    "why a --output text",
    "check-token a 5",
    "wait a --wait 10ms",
    "wait a --wait 0s --output text",
    "release a --owner me",
    "release a --owner you",
    "acquire-all b c --owner me",
    "try-acquire-all b d --owner you",
    "release-all b c --owner me",
    "acquire r --mode read --owner me",
    "acquire r --mode write --owner me",
    "describe r",
    "release r --mode read --owner me",
    "semaphore set s 3",
    "semaphore acquire s --permits 2 --owner me",
    "semaphore try-acquire s --permits 2 --owner you",
    "semaphore acquire s --permits 2 --owner you --wait 10ms",
    "semaphore describe s",
    "latch set l 2",
    "latch count-down l",
    "latch describe l",
    "latch wait l --wait 10ms",
    "latch delete l",
    "list",
    "list --output text",
    "sessions",
    "force-release a --reason maintenance --yes",
    "acquire a --mode fair --lease nonsense",
    "acquire --wait 1s",
    "release never --owner me",
    "try-acquire n --owner me",
    "try-acquire-all e f --owner me",
    "try-acquire-all e f --owner me --output text",
    "acquire-all e g --owner you --wait 10ms",
    "release-all e never --owner me",
    "release-all e f never --owner me --output text",
    "describe never",
    "wait never",
    "wait never --output text",
    "check-token never 5",
    "force-release never --reason maintenance --yes",
    "top --output text --by name --prefix never",
    "semaphore set s 3",
    "semaphore set s 4 --only-if-absent",
    "semaphore try-acquire s --owner you",
    "semaphore renew s --owner you --permit PERMIT --lease 1m",
    "semaphore renew s --owner you --permit PERMIT --output text",
    "semaphore release s --owner you",
    "semaphore release s --owner me --output text",
    "semaphore describe s --output text",
    "semaphore describe never",
    "semaphore acquire never --owner me",
    "semaphore acquire s --permits 9 --owner me",
    "semaphore set pool 3 --output text",
    "semaphore set pool 5 --only-if-absent --output text",
    "semaphore acquire pool --permits 2 --owner me --output text",
    "semaphore try-acquire pool --permits 2 --owner you --output text",
    "semaphore try-acquire pool --owner me",
    "semaphore release pool --owner me --permit PERMIT --output text",
    "semaphore release pool --owner me --output text",
    "semaphore release pool --owner me",
    "latch set t 1 --ttl 1m",
    "latch set t 2",
    "latch describe t",
    "latch describe t --output text",
    "latch wait never",
    "latch wait never --output text",
    "latch wait never --must-exist --output text",
    "latch set l 2 --output text",
    "latch set l 5 --output text",
    "latch count-down l --request-id r --output text",
    "latch count-down l --request-id r --output text",
    "latch count-down never",
    "latch delete l --output text",
    "latch delete l --output text",
    "latch wait t --wait 10ms --output text",
    "latch delete never",
    "election leader never",
    "election leader never --output text",
    "acquire r --mode read --owner me",
    "list",
    "list --output text",
];

/// What holds and waits in the background: a command, and the one that tells when it has begun,
/// because its answer contains the text.
const BACKGROUND: &[(&str, &str, &str)] = &[
    (
        "run held --lease 9s --client-name nightly -- sleep 60",
        "describe held",
        r#""holderCount":1"#,
    ),
    (
        "acquire held --owner you",
        "describe held",
        r#""waiterCount":1"#,
    ),
    (
        "run permits --permits 2 --lease 9s --client-name fetch -- sleep 60",
        "semaphore describe permits",
        r#""holderCount":1"#,
    ),
    (
        "semaphore acquire permits --owner you",
        "semaphore describe permits",
        r#""waiterCount":1"#,
    ),
    (
        "elect chosen --value 10.0.0.1:80 --lease 9s --client-name scheduler -- sleep 60",
        "election leader chosen",
        r#""value":"10.0.0.1:80""#,
    ),
];

/// Asked while [`BACKGROUND`] holds and waits.
const MEANWHILE: &[&str] = &[
    "describe held",
    "describe held --output text",
    "semaphore describe permits",
    "semaphore describe permits --output text",
    "yield held --reason maintenance",
    "yield held --reason maintenance --output text",
    "yield free --reason maintenance --output text",
    "election leader chosen",
    "election leader chosen --output text",
    "list",
    "list --output text",
    "sessions",
    "sessions --output text",
];

/// Every command that has words of its own.
const COMMANDS: &str = "\
    serve, run, elect, acquire, try-acquire, wait, release, renew, acquire-all, \
    try-acquire-all, release-all, semaphore, semaphore set, semaphore acquire, \
    semaphore try-acquire, semaphore release, semaphore renew, semaphore describe, latch, \
    latch set, latch count-down, latch wait, latch describe, latch delete, election, \
    election leader, election watch, describe, check-token, yield, list, top, coordinators, \
    sessions, watch, force-release, bench, health, completions, man, version";

#[tokio::test]
async fn the_help_of_every_command() {
    let mut seen = String::new();
    for command in [""].into_iter().chain(COMMANDS.split(", ")) {
        let line = format!("{command} --help");
        write_down(&mut seen, line.trim(), None).await;
    }
    expect("help.txt", &seen);
}

#[tokio::test]
async fn the_settings_that_are_printed() {
    let mut seen = String::new();
    write_down(&mut seen, "serve --print-config", None).await;
    expect("settings.txt", &seen);
}

#[tokio::test]
async fn the_answers_of_the_command_line() {
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let mut seen = String::new();
    let mut permit = None;
    for line in STORY {
        let line = line.replace("PERMIT", permit.as_deref().unwrap_or_default());
        let printed = write_down(&mut seen, &in_form(&line), Some(&coordinator)).await;
        let ids = printed.split(r#""permitIds":[""#).nth(1);
        let id = ids.and_then(|ids| ids.split('"').next());
        permit = id.map(str::to_owned).or(permit);
    }
    expect("answers.txt", &seen);
}

#[tokio::test]
async fn the_answers_while_sessions_hold_and_wait() {
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let mut seen = String::new();
    write_down(&mut seen, "semaphore set permits 2", Some(&coordinator)).await;
    let mut running = Vec::new();
    for (line, question, begun) in BACKGROUND {
        running.push(start(&coordinator, line));
        eventually("it has begun", || async {
            let question = in_form(question);
            let output = start(&coordinator, &question).wait_with_output().await;
            String::from_utf8(output.unwrap().stdout)
                .unwrap()
                .contains(begun)
        })
        .await;
    }
    for line in MEANWHILE {
        write_down(&mut seen, &in_form(line), Some(&coordinator)).await;
    }
    drop(running);
    expect("meanwhile.txt", &seen);
}

#[tokio::test]
async fn the_events_of_one_lock() {
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let mut seen = String::new();
    for format in ["json", "text"] {
        let line = format!("watch one --output {format}");
        writeln!(seen, "$ lockkeeper {line}").unwrap();
        let mut watch = start(&coordinator, &line);
        let mut events = BufReader::new(watch.stdout.take().unwrap()).lines();
        // The state; then a grant; then its end, and that the lock is free.
        for (what, lines) in [("", 1), ("try-acquire", 1), ("release", 2)] {
            if !what.is_empty() {
                let call = start(&coordinator, &format!("{what} one --owner me"));
                assert!(call.wait_with_output().await.unwrap().status.success());
            }
            for _ in 0..lines {
                let event = events.next_line().await.unwrap().unwrap();
                writeln!(seen, "{}", stable(&event)).unwrap();
            }
        }
    }
    expect("lock_events.txt", &seen);
}

#[tokio::test]
async fn the_events_that_are_watched() {
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let holder = start(&coordinator, "run held --client-name nightly -- sleep 60");
    eventually("it is held", || async {
        let output = start(&coordinator, "describe held").wait_with_output();
        output.await.unwrap().stdout.starts_with(b"held")
    })
    .await;
    let mut seen = String::new();
    for format in ["json", "text"] {
        let line = format!("watch --prefix held --output {format}");
        writeln!(seen, "$ lockkeeper {line}").unwrap();
        let mut watch = start(&coordinator, &line);
        let mut events = BufReader::new(watch.stdout.take().unwrap()).lines();
        let mut next = async || stable(&events.next_line().await.unwrap().unwrap());
        // The holder, before anything happens; then the beginning and the end of a wait.
        writeln!(seen, "{}", next().await).unwrap();
        let wait = start(&coordinator, "acquire held --owner you --wait 10ms");
        wait.wait_with_output().await.unwrap();
        writeln!(seen, "{}\n{}", next().await, next().await).unwrap();
        if format == "text" {
            let force = "force-release held --reason maintenance --yes --output text";
            write_down(&mut seen, force, Some(&coordinator)).await;
            writeln!(seen, "{}", next().await).unwrap();
        }
    }
    drop(holder);
    expect("events.txt", &seen);
}

/// A command with the form of its answer: JSON unless it says another.
fn in_form(line: &str) -> String {
    if line.contains("--output") {
        line.to_owned()
    } else {
        format!("{line} --output json")
    }
}

fn start(coordinator: &Coordinator, line: &str) -> Child {
    let words: Vec<&str> = line.split(' ').collect();
    lockkeeper(coordinator, &words).spawn().unwrap()
}

/// Runs a command, writes down what it printed and how it ended, and returns its stdout.
async fn write_down(seen: &mut String, line: &str, coordinator: Option<&Coordinator>) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = coordinator.map_or_else(
        || {
            let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
            command.args(&words).env_remove("LOCKKEEPER_SERVER");
            command
        },
        |coordinator| lockkeeper(coordinator, &words),
    );
    let output = command.output().await.unwrap();
    let code = output.status.code().unwrap();
    let line = words
        .iter()
        .map(|it| if it.len() == 32 { "ID" } else { it })
        .collect::<Vec<_>>()
        .join(" ");
    let text = |bytes: &[u8]| stable(std::str::from_utf8(bytes).unwrap());
    let mut printed = text(&output.stdout);
    if line.starts_with("sessions --output") {
        // Their order is that of their digests.
        let mut lines: Vec<&str> = printed.split_inclusive('\n').collect();
        lines.sort_unstable();
        printed = lines.concat();
    }
    let messages = text(&output.stderr);
    writeln!(seen, "$ lockkeeper {line}\n{printed}{messages}=> {code}\n").unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// What comes before a time that may have no fraction.
const TIMES: [&str; 10] = [
    "heldFor\":\"",
    "emainingLease\":\"",
    "emainingTtl\":\"",
    "esumableFor\":\"",
    "aitingFor\":\"",
    "age\":\"",
    "remaining_lease=",
    "remaining_ttl=",
    "waiting_for=",
    "age=",
];

/// Tokens, ids, ports and times differ from run to run, so a word takes the place of a number of
/// ten digits, of 32 or 16 hexadecimal digits, of a port of this machine, and of any time with a
/// fraction or of which a part has passed.
fn stable(text: &str) -> String {
    let mut stable = String::new();
    for part in text.split_inclusive(|it: char| !it.is_ascii_alphanumeric() && it != '.') {
        let end = part.trim_end_matches(|it: char| !it.is_ascii_alphanumeric());
        let starts = end.starts_with(|it: char| it.is_ascii_digit());
        let digits = end.chars().filter(char::is_ascii_digit).count();
        let is_hex = end.chars().all(|it| it.is_ascii_hexdigit());
        let is_id = is_hex && (end.len() == 32 || (end.len() == 16 && digits < 16));
        let is_time = starts && end.ends_with('s') && (end.contains('.') || end.contains("ms"));
        let is_cell = starts && end.ends_with('s') && stable.ends_with("  ");
        let is_left = starts && TIMES.iter().any(|it| stable.ends_with(it));
        stable.push_str(if is_id {
            "ID"
        } else if digits >= 10 {
            "TOKEN"
        } else if is_time || is_left || is_cell {
            "TIME"
        } else if end.len() == 5 && stable.ends_with("127.0.0.1:") {
            "PORT"
        } else {
            end
        });
        stable.push_str(&part[end.len()..]);
    }
    stable
}

#[track_caller]
fn expect(file: &str, seen: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(file);
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, seen).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let differs = expected
        .lines()
        .zip(seen.lines())
        .position(|(was, is)| was != is);
    let at = differs.unwrap_or(expected.lines().count().min(seen.lines().count()));
    assert!(
        expected == seen,
        "tests/golden/{file}, line {}:\nwas: {:?}\nis:  {:?}\n\
         If that is meant, UPDATE_GOLDEN=1 writes it anew.",
        at + 1,
        expected.lines().nth(at),
        seen.lines().nth(at),
    );
}

#[test]
fn what_differs_from_run_to_run_is_taken_out() {
    assert_eq!(
        stable(
            "token 1795389931342177, 59.397s of 60s, 2 holds, 59s982ms, 127.0.0.1:45678, age=2s."
        ),
        "token TOKEN, TIME of 60s, 2 holds, TIME, 127.0.0.1:PORT, age=TIME."
    );
}
