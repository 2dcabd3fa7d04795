//! What users of the command line see and scripts read, byte by byte but for what differs from run
//! to run: flags, JSON, messages, exit codes, settings. A change of it is deliberate:
//! `UPDATE_GOLDEN=1 cargo test --test process golden` writes tests/golden anew.

use std::{env, fmt::Write as _, fs, path::Path};

use crate::{
    coordinator::{Coordinator, Settings},
    steps::lockkeeper,
};

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
    "check-token a 5",
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
];

/// Every command that has words of its own.
const COMMANDS: &[&str] = &[
    "serve",
    "run",
    "acquire",
    "try-acquire",
    "release",
    "renew",
    "acquire-all",
    "try-acquire-all",
    "release-all",
    "semaphore",
    "semaphore set",
    "semaphore acquire",
    "semaphore try-acquire",
    "semaphore release",
    "semaphore renew",
    "semaphore describe",
    "latch",
    "latch set",
    "latch count-down",
    "latch wait",
    "latch describe",
    "latch delete",
    "describe",
    "check-token",
    "list",
    "sessions",
    "watch",
    "force-release",
    "bench",
];

#[tokio::test]
async fn the_help_of_every_command() {
    let mut seen = String::new();
    for command in [""].iter().chain(COMMANDS) {
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
    for line in STORY {
        let line = if line.contains("--output") {
            (*line).to_owned()
        } else {
            format!("{line} --output json")
        };
        write_down(&mut seen, &line, Some(&coordinator)).await;
    }
    expect("answers.txt", &seen);
}

/// Runs a command and writes down what it printed and how it ended.
async fn write_down(seen: &mut String, line: &str, coordinator: Option<&Coordinator>) {
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
    let text = |bytes: &[u8]| stable(std::str::from_utf8(bytes).unwrap());
    write!(
        seen,
        "$ lockkeeper {line}\n{}{}=> {code}\n\n",
        text(&output.stdout),
        text(&output.stderr)
    )
    .unwrap();
}

/// Tokens, ids and times differ from run to run, so a word takes the place of a number of ten
/// digits, of 32 hexadecimal digits, of what is left of a lease, and of any time with a fraction.
fn stable(text: &str) -> String {
    let mut stable = String::new();
    for part in text.split_inclusive(|it: char| !it.is_ascii_alphanumeric() && it != '.') {
        let end = part.trim_end_matches(|it: char| !it.is_ascii_alphanumeric());
        let starts = end.starts_with(|it: char| it.is_ascii_digit());
        let digits = end.chars().filter(char::is_ascii_digit).count();
        let is_id = end.len() == 32 && end.chars().all(|it| it.is_ascii_hexdigit());
        let is_time = starts && end.ends_with('s') && (end.contains('.') || end.contains("ms"));
        let is_left = starts && stable.ends_with("emainingLease\":\"");
        stable.push_str(if is_id {
            "ID"
        } else if digits >= 10 {
            "TOKEN"
        } else if is_time || is_left {
            "TIME"
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
        stable("token 1795389931342177, 59.397s of 60s, 2 holds, 59s982ms, 127.0.0.1:1."),
        "token TOKEN, TIME of 60s, 2 holds, TIME, 127.0.0.1:1."
    );
}
