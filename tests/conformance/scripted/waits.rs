//! Limits of waits while no coordinator answers.

use std::{sync::atomic::Ordering, time::Duration};

use anyhow::{Result, ensure};
use lockkeeper_api::pb::ResumeSession;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tonic::Code;

use crate::{
    messages::{PING_INTERVAL, TOKEN, TOLERANCE},
    stage::Stage,
    stream::Stream,
};

const WAIT: Duration = Duration::from_millis(900);

/// Starts an acquire that waits for at most [`WAIT`].
async fn acquire(stage: &mut Stage) -> Result<u64> {
    let wait = WAIT.as_millis();
    let command = json!({ "do": "acquire", "name": "a", "guard": "g", "wait_ms": wait });
    stage.driver.send(command).await
}

/// Refuses to resume the session until the wait has ended, which has to be in time and to say why.
async fn ends_without_a_stream(stage: &mut Stage, id: u64, until: Instant) -> Result<()> {
    while !stage.driver.is_answered(id) {
        ensure!(Instant::now() < until + TOLERANCE, "it does not end");
        for coordinator in &mut stage.coordinators {
            if let Some(next) = coordinator.try_accept() {
                next.refuse(Code::Unavailable, "DRAINING");
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
    ensure!(Instant::now() + TOLERANCE > until, "it ended early");
    let failure = stage.driver.fails(id, "unreachable").await?;
    let mut addresses = stage.coordinators.iter().map(|it| it.address.to_string());
    let names_it = addresses.any(|it| failure.message.contains(&it));
    ensure!(names_it, "no address: {failure:?}");
    // The last attempt was refused, or there was none since the stream broke.
    let mut causes = ["scripted", "broken on purpose"].into_iter();
    let says_why = causes.any(|it| failure.message.contains(it));
    ensure!(says_why, "no cause: {failure:?}");
    Ok(())
}

/// Lets the session be resumed at any coordinator.
async fn resumed(stage: &mut Stage) -> Result<(Stream, ResumeSession)> {
    let mut next = stage.accept_any().await?;
    let resume = next.expect_resume().await?;
    next.opened_with(resume.grants.clone());
    Ok((next, resume))
}

pub(super) async fn a_wait_that_was_never_sent_ends_in_time(stage: &mut Stage) -> Result<()> {
    let stream = stage.connect().await?;
    stream.break_off();
    stage.driver.state("resuming").await?;
    let until = Instant::now() + WAIT;
    let id = acquire(stage).await?;
    ends_without_a_stream(stage, id, until).await?;
    let (mut next, resume) = resumed(stage).await?;
    ensure!(resume.grants.is_empty(), "{:?}", resume.grants);
    next.quiet_until(Instant::now() + TOLERANCE).await
}

pub(super) async fn a_wait_whose_stream_broke_ends_in_time(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let until = Instant::now() + WAIT;
    let id = acquire(stage).await?;
    stream.expect_acquire().await?;
    stream.break_off();
    ends_without_a_stream(stage, id, until).await?;
    // The session goes on.
    let command = json!({ "do": "acquire", "name": "b", "guard": "h" });
    let id = stage.driver.send(command).await?;
    let (mut next, _) = resumed(stage).await?;
    loop {
        let (op_id, request) = next.expect_acquire().await?;
        if request.name == "b" {
            next.grant(op_id, &request, TOKEN);
            break;
        }
        next.expect_cancel().await?;
    }
    stage.driver.ok(id).await?;
    Ok(())
}

/// The first coordinator may have granted it, so it is asked for again, and given back.
pub(super) async fn a_grant_after_the_end_of_a_wait_is_released(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let until = Instant::now() + WAIT;
    let id = acquire(stage).await?;
    let (_, first) = stream.expect_acquire().await?;
    stream.break_off();
    ends_without_a_stream(stage, id, until).await?;
    let (mut next, resume) = resumed(stage).await?;
    let names_it = resume.grants.iter().any(|it| it.owner == first.owner);
    ensure!(names_it, "{:?}", resume.grants);
    let (op_id, again) = next.expect_acquire().await?;
    ensure!(again.request_id == first.request_id, "a new request id");
    let (cancelled, _) = next.expect_cancel().await?;
    ensure!(cancelled == op_id, "another operation was cancelled");
    next.grant(op_id, &again, TOKEN);
    let (op_id, release) = next.expect_release().await?;
    ensure!(release.owner == first.owner, "{release:?}");
    next.released(op_id);
    Ok(())
}

pub(super) async fn on_a_stream_the_coordinator_ends_a_wait(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let id = acquire(stage).await?;
    let (op_id, request) = stream.expect_acquire().await?;
    stream
        .quiet_until(Instant::now() + WAIT + TOLERANCE)
        .await?;
    ensure!(!stage.driver.is_answered(id), "the client ended it");
    stream.grant(op_id, &request, TOKEN);
    stage.driver.ok(id).await?;
    Ok(())
}

/// The overrun is at most that of a ping and its answer.
pub(super) async fn a_wait_on_a_silent_stream_ends_soon(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let pings = &stream.habits().answers_pings;
    pings.store(false, Ordering::Relaxed);
    let command = json!({ "do": "acquire", "name": "a", "guard": "g", "wait_ms": 100 });
    let begun = Instant::now();
    let id = stage.driver.send(command).await?;
    stream.expect_acquire().await?;
    while !stage.driver.is_answered(id) {
        let most = PING_INTERVAL * 2 + TOLERANCE;
        ensure!(begun.elapsed() < most, "it does not end");
        sleep(Duration::from_millis(5)).await;
    }
    stage.driver.fails(id, "unreachable").await?;
    Ok(())
}
