//! Commands that wait or watch outlive a planned restart of their coordinator, and a grant whose
//! answer cannot be printed is told on stderr.

use std::{
    fs::File,
    process::{Output, Stdio},
};

use tokio::process::{ChildStderr, Command};

use crate::prelude::*;

type Lines = tokio::io::Lines<BufReader<ChildStderr>>;

fn command(coordinator: &Coordinator, line: &str) -> Command {
    let arguments: Vec<_> = line.split(' ').collect();
    lockkeeper(coordinator, &arguments)
}

async fn run(coordinator: &Coordinator, line: &str) -> Output {
    command(coordinator, line).output().await.unwrap()
}

async fn succeeds(coordinator: &Coordinator, line: &str) {
    let done = run(coordinator, line).await;
    assert!(done.status.success(), "{line}: {}", text(&done.stderr));
}

/// Starts a command that waits, and returns when it says so.
async fn waiting(coordinator: &Coordinator, line: &str) -> (Child, Lines) {
    let mut child = command(coordinator, line).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    says_that_it_waits(&mut said).await;
    (child, said)
}

async fn says_that_it_waits(said: &mut Lines) {
    let line = said.next_line().await.unwrap().unwrap();
    assert!(line.starts_with("lockkeeper: waiting for "), "{line}");
}

async fn restart(coordinator: &mut Coordinator) {
    coordinator.signal(Signal::SIGTERM);
    assert_eq!(coordinator.exit().await.code(), Some(0));
    coordinator.restart_on_same_address().await;
}

/// The same with a stdout that takes nothing, like a full disk.
async fn run_unprinted(coordinator: &Coordinator, line: &str) -> Output {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let child = command(coordinator, line).stdout(Stdio::from(full)).spawn();
    child.unwrap().wait_with_output().await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The exit code and stdout of a command that ends by itself.
async fn ended(command: Child) -> (Option<i32>, String) {
    let output = command.wait_with_output().await.unwrap();
    (output.status.code(), text(&output.stdout))
}

/// A command that waits for `build` gets it, and gives it back.
async fn takes_its_turn(coordinator: &Coordinator, child: Child, owner: &str) {
    let (code, granted) = ended(child).await;
    assert_eq!(code, Some(0));
    let expected = format!("granted build mode=exclusive owner={owner} ");
    assert!(granted.starts_with(&expected), "{granted}");
    succeeds(coordinator, &format!("release build --owner {owner}")).await;
}

#[tokio::test]
async fn waits_go_on_after_a_restart_of_the_coordinator() {
    let redis = RedisServer::start().await;
    let mut coordinator = Coordinator::start(&settings_on(&redis.url())).await;
    for line in [
        "acquire build --owner first --lease 60s",
        "semaphore set pool 1",
        "semaphore acquire pool --owner first --lease 60s",
        "latch set ready 1",
    ] {
        succeeds(&coordinator, line).await;
    }
    let mut waits = Vec::new();
    for line in [
        "acquire build --owner second --wait 60s",
        "acquire-all build other --owner third",
        "wait build",
        "latch wait ready --wait 60s",
        "semaphore acquire pool --owner second",
    ] {
        waits.push(waiting(&coordinator, line).await);
    }
    restart(&mut coordinator).await;
    for (_, said) in &mut waits {
        let line = said.next_line().await.unwrap().unwrap();
        assert!(line.ends_with("; trying again"), "{line}");
        says_that_it_waits(said).await;
    }
    for line in [
        "release build --owner first",
        "semaphore release pool --owner first",
        "latch count-down ready",
    ] {
        succeeds(&coordinator, line).await;
    }
    let mut waits = waits.into_iter().map(|(child, _)| child);
    let [second, third, free, latch, permit] = std::array::from_fn(|_| waits.next().unwrap());
    // In an order that is not defined.
    tokio::join!(
        takes_its_turn(&coordinator, second, "second"),
        takes_its_turn(&coordinator, third, "third"),
    );
    for (child, expected) in [
        (permit, "granted pool owner=second "),
        (latch, "open ready count=0\n"),
        (free, "free build "),
    ] {
        let (code, said) = ended(child).await;
        assert_eq!(code, Some(0));
        assert!(said.starts_with(expected), "{said}");
    }
}

#[tokio::test]
async fn watches_go_on_after_a_restart_of_the_coordinator() {
    let redis = RedisServer::start().await;
    let mut coordinator = Coordinator::start(&settings_on(&redis.url())).await;
    let mut watches = ["watch", "watch build"].map(|line| {
        let mut watch = command(&coordinator, line).spawn().unwrap();
        let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        (watch, lines)
    });
    for is_restarted in [false, true] {
        if is_restarted {
            restart(&mut coordinator).await;
        }
        // One of them may not watch yet, so it is taken until it does.
        for (_, lines) in &mut watches {
            loop {
                succeeds(&coordinator, "acquire build --owner me --lease 60s").await;
                succeeds(&coordinator, "release build --owner me").await;
                let seen = async {
                    loop {
                        let line = lines.next_line().await.unwrap().unwrap();
                        if line.contains("granted") {
                            return;
                        }
                    }
                };
                let within = Duration::from_millis(500);
                if tokio::time::timeout(within, seen).await.is_ok() {
                    break;
                }
            }
        }
    }
    for (watch, _) in &mut watches {
        assert_eq!(watch.try_wait().unwrap(), None, "it goes on");
    }
}

#[tokio::test]
async fn a_grant_that_cannot_be_printed_is_told_on_stderr() {
    let (_redis, coordinator, _client) = one_coordinator().await;
    let acquire = "acquire build --owner me --request-id r-1";
    let done = run_unprinted(&coordinator, acquire).await;
    let told = text(&done.stderr);
    assert_eq!(done.status.code(), Some(75), "{told}");
    let granted = "lockkeeper: granted build mode=exclusive owner=me fencing_token=";
    assert!(told.starts_with(granted), "{told}");
    assert!(
        told.ends_with("; retry with --request-id r-1 --owner me\n"),
        "{told}"
    );

    // The retry has the answer.
    let again = run(&coordinator, acquire).await;
    assert!(text(&again.stdout).contains("hold_count=1"), "{again:?}");
    let done = run_unprinted(&coordinator, "describe build").await;
    assert_eq!(done.status.code(), Some(70));

    // The reader is gone: as with `cat`, and there is nothing to say.
    let (mut child, mut said) = waiting(&coordinator, "wait build").await;
    drop(child.stdout.take());
    succeeds(&coordinator, "release build --owner me").await;
    assert_eq!(child.wait().await.unwrap().code(), Some(141));
    assert_eq!(said.next_line().await.unwrap(), None);
}
