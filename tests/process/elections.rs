//! `lockkeeper elect` and `election watch`, in processes of their own.

use std::{fs, path::Path};

use tokio::{io::Lines, process::ChildStdout};

use crate::prelude::*;

/// Writes its term and goes on until the test ends it.
const LEAD: &str = "echo $LOCKKEEPER_TERM $LOCKKEEPER_FENCING_TOKEN >> led; \
    while [ -e alive ]; do sleep 0.02; done";

fn elect(coordinator: &Coordinator, value: &str, folder: &Path) -> Child {
    let mut command = lockkeeper(coordinator, &["elect", "workers", "--value", value]);
    command.args(["--lease", "2s", "--", "sh", "-c", LEAD]);
    command.current_dir(folder).spawn().unwrap()
}

/// The terms that commands ran in.
fn led(folder: &Path) -> Vec<String> {
    let lines = fs::read_to_string(folder.join("led")).unwrap_or_default();
    let term = |line: &str| {
        let (term, token) = line.split_once(' ').unwrap();
        assert_eq!(term, token);
        term.to_owned()
    };
    lines.lines().map(term).collect()
}

async fn next(watch: &mut Lines<BufReader<ChildStdout>>) -> serde_json::Value {
    let line = watch.next_line().await.unwrap().expect("it goes on");
    serde_json::from_str(&line).unwrap()
}

#[tokio::test]
async fn when_the_leading_process_is_killed_the_other_one_leads() {
    let redis = RedisServer::start().await;
    let first = Coordinator::start(&settings_on(&redis.url())).await;
    let second = Coordinator::start(&settings_on(&redis.url())).await;
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("alive"), "").unwrap();
    let watching = ["election", "watch", "workers", "--output", "json"];
    let mut watch = lockkeeper(&second, &watching).spawn().unwrap();
    let mut events = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert_eq!(next(&mut events).await, serde_json::json!({"noLeader": {}}));

    let mut leader = elect(&first, "one", folder.path());
    let seen = next(&mut events).await;
    assert_eq!(seen["leader"]["value"], "one");
    eventually("its command runs", || async {
        led(folder.path()).len() == 1
    })
    .await;
    let other = elect(&second, "two", folder.path());
    until_waiting(&second.client().await, "workers", 1).await;
    leader.kill().await.unwrap();
    let mut after = next(&mut events).await;
    if after.get("noLeader").is_some() {
        after = next(&mut events).await;
    }
    assert_eq!(after["leader"]["value"], "two");
    eventually("the other leads", || async {
        led(folder.path()).len() == 2
    })
    .await;
    let terms = [&seen, &after].map(|it| it["leader"]["term"].as_str().unwrap());
    assert_eq!(led(folder.path()), terms);
    assert!(terms[0].parse::<u64>().unwrap() < terms[1].parse().unwrap());

    let mut asking = lockkeeper(&first, &["election", "leader", "workers"]);
    let asked = asking.output().await.unwrap();
    let shown = String::from_utf8(asked.stdout).unwrap();
    let expected = format!("leader workers term={} value=two ", terms[1]);
    assert!(shown.starts_with(&expected), "{shown}");
    fs::remove_file(folder.path().join("alive")).unwrap();
    let ended = other.wait_with_output().await.unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert_eq!(next(&mut events).await, serde_json::json!({"noLeader": {}}));
    let asked = asking.output().await.unwrap();
    assert_eq!(asked.status.code(), Some(1), "nobody leads");
}
