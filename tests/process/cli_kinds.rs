//! The command line with every kind of lock, against a real coordinator.

use std::fs;

use tempfile::TempDir;

use crate::{
    coordinator::{Coordinator, Settings},
    redis_server::eventually,
    steps::{lockkeeper, until_waiting},
};

/// Runs a command whose words have no spaces; its exit code and what it wrote.
async fn ask(coordinator: &Coordinator, line: &str) -> (i32, String) {
    let words: Vec<&str> = line.split(' ').collect();
    let output = lockkeeper(coordinator, &words).output().await.unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), text)
}

#[tokio::test]
async fn a_lock_in_each_mode() {
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let ask = async |line: &str| ask(&coordinator, line).await;
    let describe = async |expected: &[&str]| {
        let (_, text) = ask("describe index").await;
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{text}");
        for (line, start) in lines.iter().zip(expected) {
            assert!(line.starts_with(start), "{text}");
        }
    };
    for owner in ["a", "b"] {
        let line = format!("try-acquire index --mode read --owner {owner} --lease 1m");
        let (code, text) = ask(&line).await;
        assert_eq!(code, 0, "{text}");
        let granted = format!("granted index mode=read owner={owner} fencing_token=0 ");
        assert!(text.starts_with(&granted), "{text}");
    }
    assert_eq!(ask("try-acquire index -m write --owner c").await.0, 1);
    for (line, reason) in [
        ("acquire index --mode write --owner a", "SELF_DEADLOCK"),
        ("acquire index --mode fair --owner c", "WRONG_KIND"),
        ("release index --owner a", "WRONG_KIND"),
    ] {
        let (code, text) = ask(line).await;
        assert_eq!(code, 64, "{text}");
        assert!(
            text.starts_with(&format!("lockkeeper: {reason}: ")),
            "{text}"
        );
    }
    let writer = [
        "run",
        "index",
        "--mode",
        "write",
        "--client-name",
        "rebuild",
        "--",
        "true",
    ];
    let writer = lockkeeper(&coordinator, &writer).spawn().unwrap();
    until_waiting(&coordinator.client().await, "index", 1).await;
    describe(&[
        "held index mode=read holders=2 last_fencing_token=0 remaining_lease=5",
        "  holder owner=a mode=read hold_count=1 remaining_lease=5",
        "  holder owner=b mode=read hold_count=1 remaining_lease=5",
        "  waiter position=1 owner=0 mode=write waiting_for=",
    ])
    .await;
    let (code, text) = ask("renew index --mode read --owner a --lease 2m").await;
    assert_eq!(code, 0, "{text}");
    assert!(
        text.starts_with("renewed index mode=read owner=a "),
        "{text}"
    );
    for owner in ["a", "b"] {
        let line = format!("release index --mode read --owner {owner}");
        assert_eq!(ask(&line).await, (0, "released index\n".to_owned()));
    }
    let output = writer.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    describe(&["free index last_fencing_token=1"]).await;

    assert_eq!(ask("try-acquire index --mode fair --owner d").await.0, 0);
    let waiter = ["acquire", "index", "--mode", "fair", "--owner", "e"];
    let waiter = lockkeeper(&coordinator, &waiter).spawn().unwrap();
    until_waiting(&coordinator.client().await, "index", 1).await;
    describe(&[
        "held index mode=fair holders=1 last_fencing_token=1",
        "  holder owner=d mode=fair hold_count=1 remaining_lease=29",
        "  waiter position=1 owner=e mode=fair waiting_for=",
    ])
    .await;
    assert_eq!(ask("release index --mode fair --owner d").await.0, 0);
    let output = waiter.wait_with_output().await.unwrap();
    assert!(
        output
            .stdout
            .starts_with(b"granted index mode=fair owner=e"),
        "{output:?}"
    );
}

#[tokio::test]
async fn several_locks_at_once() {
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let ask = async |line: &str| ask(&coordinator, line).await;
    let (code, text) = ask("acquire-all b a --read r --owner o --lease 1m").await;
    assert_eq!(code, 0, "{text}");
    let starts = [
        "granted a mode=exclusive owner=o ",
        "granted b mode=exclusive ",
        "granted r mode=read ",
    ];
    for (line, start) in text.lines().zip(starts) {
        assert!(line.starts_with(start), "{text}");
    }
    let (code, text) = ask("try-acquire-all c a --owner p").await;
    assert_eq!(code, 1, "{text}");
    assert!(
        text.starts_with("not granted: a is held, the holder's lease ends in 5"),
        "{text}"
    );
    assert_eq!(
        ask("acquire-all x --read x --owner o").await.0,
        64,
        "two modes"
    );

    let run = [
        "run",
        "c",
        "--also",
        "b",
        "--read",
        "r",
        "--",
        "sh",
        "-c",
        "echo \"$LOCKKEEPER_FENCING_TOKENS\"",
    ];
    let run = lockkeeper(&coordinator, &run).spawn().unwrap();
    until_waiting(&coordinator.client().await, "b", 1).await;
    assert_eq!(ask("release a --owner o").await.0, 0);
    let (code, text) = ask("release-all a b --read r --owner o").await;
    assert_eq!(
        (code, text.as_str()),
        (1, "not held a\nreleased b\nreleased r\n")
    );
    let output = run.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    let names: Vec<_> = told
        .lines()
        .map(|line| line.split_once(' ').unwrap().1)
        .collect();
    assert_eq!(names, ["c", "b", "r"]);
    for name in names {
        let (_, text) = ask(&format!("describe {name}")).await;
        assert!(text.starts_with(&format!("free {name}")), "{text}");
    }
}

#[tokio::test]
async fn semaphores() {
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let ask = async |line: &str| ask(&coordinator, line).await;
    let (code, text) = ask("semaphore acquire pool --owner o").await;
    assert_eq!(code, 64, "{text}");
    assert!(
        text.starts_with("lockkeeper: SEMAPHORE_NOT_FOUND: "),
        "{text}"
    );
    let set = ask("semaphore set pool 3").await;
    assert_eq!(set, (0, "created pool total=3 available=3\n".to_owned()));
    let set = ask("semaphore set pool 5 --only-if-absent").await;
    assert_eq!(set, (0, "set pool total=3 available=3\n".to_owned()));

    let (code, text) = ask("semaphore acquire pool --permits 2 --owner o --lease 1m").await;
    assert_eq!(code, 0, "{text}");
    assert!(
        text.starts_with("granted pool owner=o permits=2 lease=1m valid_for=59s"),
        "{text}"
    );
    let ids = text.trim_end().rsplit_once('=').unwrap().1.to_owned();
    let one = ids.split(',').next().unwrap();
    assert!(one.len() == 32 && ids.len() == 65, "{text}");
    let (code, text) = ask("semaphore try-acquire pool -p 2 --owner p").await;
    assert_eq!(
        (code, text.as_str()),
        (1, "not granted pool: available=1\n")
    );
    assert_eq!(
        ask("semaphore acquire pool -p 9 --owner p").await.0,
        64,
        "never"
    );
    let (code, text) = ask(&format!(
        "semaphore renew pool --owner o --permit {one} --lease 2m"
    ))
    .await;
    assert_eq!(code, 0, "{text}");
    assert!(
        text.starts_with("renewed pool owner=o permits=1 lease=2m "),
        "{text}"
    );
    let (_, text) = ask(&format!("semaphore release pool --owner o --permit {one}")).await;
    assert_eq!(text, "released pool permits=1 available=2\n");
    let (_, text) = ask("semaphore release pool --owner o").await;
    assert_eq!(text, "released pool permits=1 available=3\n");
    assert_eq!(ask("semaphore release pool --owner o").await.0, 1);
    let (_, text) = ask("semaphore describe pool --output json").await;
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&json["total"], &json["available"]),
        (&3.into(), &"3".into())
    );
}

#[tokio::test]
async fn commands_under_permits() {
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let ask = async |line: &str| ask(&coordinator, line).await;
    assert_eq!(ask("semaphore set pool 3").await.0, 0);
    let (code, text) = ask("semaphore acquire pool -p 2 --owner o").await;
    assert_eq!(code, 0, "{text}");
    let place = TempDir::new().unwrap();
    let script =
        "echo $LOCKKEEPER_SEMAPHORE $LOCKKEEPER_PERMITS; while [ ! -e end ]; do sleep 0.02; done";
    let mut first = lockkeeper(
        &coordinator,
        &["run", "pool", "--permits", "1", "--", "sh", "-c", script],
    );
    let first = first.current_dir(place.path()).spawn().unwrap();
    eventually("it holds one", || async {
        ask("semaphore describe pool")
            .await
            .1
            .contains("available=0")
    })
    .await;
    let (code, text) = ask("run pool --permits 1 --no-wait -E 9 -- true").await;
    assert_eq!(code, 9, "{text}");
    assert!(
        text.contains("pool: too few permits are free, available=0"),
        "{text}"
    );
    let second = lockkeeper(&coordinator, &["run", "pool", "-p", "2", "--", "true"])
        .spawn()
        .unwrap();
    eventually("it waits", || async {
        let (_, text) = ask("semaphore describe pool").await;
        text.contains("  waiter position=1 owner=0 waiting_for=")
    })
    .await;
    let (_, text) = ask("semaphore describe pool").await;
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
    let output = first.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, b"pool 1\n");
    assert_eq!(ask("semaphore release pool --owner o").await.0, 0);
    let output = second.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[tokio::test]
async fn latches() {
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let ask = async |line: &str| ask(&coordinator, line).await;
    assert_eq!(
        ask("latch wait start").await,
        (0, "open start count=0\n".to_owned())
    );
    assert_eq!(
        ask("latch set start 2 --ttl 1h").await,
        (0, "set start count=2\n".to_owned())
    );
    assert_eq!(
        ask("latch set start 5").await,
        (1, "not set start count=2\n".to_owned())
    );
    let (code, text) = ask("latch wait start --wait 50ms").await;
    assert_eq!(code, 1, "{text}");
    assert!(
        text.starts_with("not opened start: the wait ran out, count=2\n"),
        "{text}"
    );
    let waiting = lockkeeper(
        &coordinator,
        &["latch", "wait", "start", "--output", "json"],
    );
    let mut waiting = waiting;
    let waiting = waiting.spawn().unwrap();
    eventually("it waits", || async {
        let (_, text) = ask("latch describe start").await;
        text.starts_with("closed start count=2 remaining_ttl=59m") && text.ends_with(" waiters=1\n")
    })
    .await;
    let counted = ask("latch count-down start --request-id r").await;
    assert_eq!(counted, (0, "closed start count=1\n".to_owned()));
    assert_eq!(
        ask("latch count-down start --request-id r").await,
        counted,
        "a repeat"
    );
    assert_eq!(
        ask("latch count-down start").await,
        (0, "open start count=0\n".to_owned())
    );
    let output = waiting.wait_with_output().await.unwrap();
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(0), &b"{\"opened\":{}}\n"[..])
    );
    let (code, text) = ask("latch count-down start").await;
    assert_eq!(code, 64, "{text}");
    assert!(text.starts_with("lockkeeper: COUNT_EXCEEDED: "), "{text}");
    assert_eq!(ask("latch set other 1").await.0, 0);
    assert_eq!(
        ask("latch delete other").await,
        (0, "deleted other\n".to_owned())
    );
    assert_eq!(
        ask("latch delete other").await,
        (0, "no latch other\n".to_owned())
    );
}
