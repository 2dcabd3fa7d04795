//! The command line with every kind of lock, against a real coordinator.

use std::{fs, process::Output};

use crate::prelude::*;

/// A coordinator on a store of its own, and commands at it.
struct Shell(Coordinator);

// === impl Shell ===

impl Shell {
    async fn start() -> Self {
        Self(Coordinator::start(&Settings::on("embedded:")).await)
    }

    /// Runs a command whose words have no spaces; its exit code and what it wrote.
    async fn ask(&self, line: &str) -> (i32, String) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let output = lockkeeper(&self.0, &words).output().await.unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code().unwrap(), text)
    }

    /// Runs a command a line. Behind `=>`, there or on the next line, is its exit code and its
    /// first line of output, below it the others behind `|`; `…` stands for the rest of a line.
    async fn tell(&self, story: &str) {
        let mut steps: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(more) = line.strip_prefix("| ") {
                steps.last_mut().unwrap().1.push(more);
                continue;
            }
            let (line, outcome) = line
                .split_once("=> ")
                .map_or((line, None), |(line, it)| (line, Some(it)));
            if !line.is_empty() {
                steps.push((line, Vec::new()));
            }
            steps.last_mut().unwrap().1.extend(outcome);
        }
        for (line, mut expected) in steps {
            let (code, first) = expected[0].split_once(' ').unwrap_or((expected[0], "…"));
            expected[0] = first;
            let (exit, text) = self.ask(line).await;
            assert_eq!(exit.to_string(), code, "{line}: {text}");
            if expected == ["…"] {
                continue;
            }
            assert_eq!(text.lines().count(), expected.len(), "{line}: {text}");
            for (seen, expected) in text.lines().zip(expected) {
                let is_expected = match expected.strip_suffix('…') {
                    Some(start) => seen.starts_with(start),
                    None => seen == expected,
                };
                assert!(is_expected, "{line} => {expected}: {text}");
            }
        }
    }

    fn spawn(&self, words: &[&str]) -> Child {
        lockkeeper(&self.0, words).spawn().unwrap()
    }

    async fn until_one_waits(&self, name: &str) {
        until_waiting(&self.0.client().await, name, 1).await;
    }
}

/// What a command wrote that ends well.
async fn end(command: Child) -> String {
    let output: Output = command.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_lock_in_each_mode() {
    let shell = Shell::start().await;
    shell
        .tell(
            "try-acquire index --mode read --owner a --lease 1m
               => 0 granted index mode=read owner=a fencing_token=0 …
             try-acquire index --mode read --owner b --lease 1m
               => 0 granted index mode=read owner=b fencing_token=0 …
             try-acquire index -m write --owner c => 1
             acquire index --mode write --owner a => 64 lockkeeper: SELF_DEADLOCK: …
             acquire index --mode fair --owner c => 64 lockkeeper: WRONG_KIND: …
             release index --owner a => 64 lockkeeper: WRONG_KIND: …",
        )
        .await;
    let writer = "run index --mode write --client-name rebuild -- true";
    let writer = shell.spawn(&writer.split(' ').collect::<Vec<_>>());
    shell.until_one_waits("index").await;
    shell
        .tell(
            "describe index
               => 0 held index mode=read holders=2 last_fencing_token=0 remaining_lease=5…
               |   holder owner=a mode=read hold_count=1 remaining_lease=5…
               |   holder owner=b mode=read hold_count=1 remaining_lease=5…
               |   waiter position=1 owner=0 mode=write waiting_for=…
             renew index --mode read --owner a --lease 2m
               => 0 renewed index mode=read owner=a …
             release index --mode read --owner a => 0 released index
             release index --mode read --owner b => 0 released index",
        )
        .await;
    end(writer).await;
    shell
        .tell(
            "describe index => 0 free index last_fencing_token=1…
             try-acquire index --mode fair --owner d => 0",
        )
        .await;
    let waiter = shell.spawn(&["acquire", "index", "--mode", "fair", "--owner", "e"]);
    shell.until_one_waits("index").await;
    shell
        .tell(
            "describe index => 0 held index mode=fair holders=1 last_fencing_token=1…
               |   holder owner=d mode=fair hold_count=1 remaining_lease=29…
               |   waiter position=1 owner=e mode=fair waiting_for=…
             release index --mode fair --owner d => 0",
        )
        .await;
    let granted = end(waiter).await;
    assert!(
        granted.starts_with("granted index mode=fair owner=e"),
        "{granted}"
    );
}

#[tokio::test]
async fn several_locks_at_once() {
    let shell = Shell::start().await;
    shell
        .tell(
            "acquire-all b a --read r --owner o --lease 1m
               => 0 granted a mode=exclusive owner=o …
               | granted b mode=exclusive …
               | granted r mode=read …
             try-acquire-all c a --owner p
               => 1 not granted: a is held, the holder's lease ends in 5…
             acquire-all x --read x --owner o => 64",
        )
        .await;
    let script = "echo \"$LOCKKEEPER_FENCING_TOKENS\"";
    let run = [
        "run", "c", "--also", "b", "--read", "r", "--", "sh", "-c", script,
    ];
    let run = shell.spawn(&run);
    shell.until_one_waits("b").await;
    shell
        .tell(
            "release a --owner o => 0
             release-all a b --read r --owner o => 1 not held a
               | released b
               | released r",
        )
        .await;
    let tokens = end(run).await;
    let names = tokens.lines().map(|line| line.split_once(' ').unwrap().1);
    assert_eq!(names.collect::<Vec<_>>(), ["c", "b", "r"]);
    for name in ["c", "b", "r"] {
        shell
            .tell(&format!("describe {name} => 0 free {name}…"))
            .await;
    }
}

#[tokio::test]
async fn commands_under_permits() {
    let shell = Shell::start().await;
    shell
        .tell(
            "semaphore set pool 3 => 0
             semaphore acquire pool -p 2 --owner o => 0",
        )
        .await;
    let place = TempDir::new().unwrap();
    let script =
        "echo $LOCKKEEPER_SEMAPHORE $LOCKKEEPER_PERMITS; while [ ! -e end ]; do sleep 0.02; done";
    let first = ["run", "pool", "--permits", "1", "--", "sh", "-c", script];
    let mut first = lockkeeper(&shell.0, &first);
    let first = first.current_dir(place.path()).spawn().unwrap();
    let describes = async |part: &str| shell.ask("semaphore describe pool").await.1.contains(part);
    eventually("it holds one", || describes("available=0")).await;
    let (code, text) = shell
        .ask("run pool --permits 1 --no-wait -E 9 -- true")
        .await;
    assert_eq!(code, 9, "{text}");
    assert!(
        text.contains("pool: too few permits are free, available=0"),
        "{text}"
    );
    let second = shell.spawn(&["run", "pool", "-p", "2", "--", "true"]);
    let waits = "  waiter position=1 owner=0 waiting_for=";
    eventually("it waits", || describes(waits)).await;
    let (_, text) = shell.ask("semaphore describe pool").await;
    assert!(
        text.starts_with("semaphore pool total=3 available=0 holders=2\n"),
        "{text}"
    );
    for part in [
        "holder owner=o permits=2 ",
        "holder owner=0 permits=1 ",
        "client_name=sh\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
    fs::write(place.path().join("end"), "").unwrap();
    assert_eq!(end(first).await, "pool 1\n");
    shell.tell("semaphore release pool --owner o => 0").await;
    end(second).await;
}

#[tokio::test]
async fn latches() {
    let shell = Shell::start().await;
    shell.tell("latch set start 1 --ttl 1h => 0").await;
    let waiting = shell.spawn(&["latch", "wait", "start", "--output", "json"]);
    eventually("it waits", || async {
        let (_, text) = shell.ask("latch describe start").await;
        text.starts_with("closed start count=1 remaining_ttl=59m") && text.ends_with(" waiters=1\n")
    })
    .await;
    let opens = "latch count-down start => 0 open start count=0";
    shell.tell(opens).await;
    assert_eq!(end(waiting).await, "{\"opened\":{}}\n");
}
