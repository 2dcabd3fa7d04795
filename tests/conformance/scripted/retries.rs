//! Failures, and which of them are worth another attempt.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::time::Instant;
use tonic::Code;

use crate::{
    messages::{LEASE, TOKEN, TOLERANCE},
    stage::Stage,
};

/// Fails an acquire once, and expects it again with the same request id, after the pause.
async fn is_tried_again(stage: &mut Stage, code: Code, reason: &str) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let (id, op_id, first) = stage.acquiring(&mut stream, command).await?;
    stream.fail(op_id, code, reason);
    let failed_at = Instant::now();
    let (op_id, again) = stream.expect_acquire().await?;
    // The coordinator asks for 100 ms; half of it is the jitter.
    ensure!(failed_at.elapsed() >= Duration::from_millis(45), "at once");
    ensure!(again.request_id == first.request_id, "a new request id");
    ensure!(again.owner == first.owner, "another owner");
    stream.grant(op_id, &again, TOKEN);
    stage.driver.ok(id).await?;
    Ok(())
}

pub(super) async fn an_unavailable_store_is_tried_again(stage: &mut Stage) -> Result<()> {
    is_tried_again(stage, Code::Unavailable, "STORE_UNAVAILABLE").await
}

pub(super) async fn an_unknown_outcome_is_tried_again(stage: &mut Stage) -> Result<()> {
    is_tried_again(stage, Code::Unavailable, "OUTCOME_UNKNOWN").await
}

pub(super) async fn a_draining_coordinator_is_tried_again(stage: &mut Stage) -> Result<()> {
    is_tried_again(stage, Code::Unavailable, "DRAINING").await
}

pub(super) async fn patience_ends_with_the_lease(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let id = stage.driver.send(command).await?;
    let begun = Instant::now();
    while !stage.driver.is_answered(id) {
        ensure!(begun.elapsed() < LEASE + Duration::from_secs(2), "no end");
        if let Some(frame) = stream.try_next() {
            stream.fail(frame.op_id, Code::Unavailable, "STORE_UNAVAILABLE");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let failure = stage.driver.fails(id, "refused").await?;
    ensure!(failure.reason == "STORE_UNAVAILABLE", "{failure:?}");
    ensure!(begun.elapsed() + TOLERANCE > LEASE, "{:?}", begun.elapsed());
    Ok(())
}

async fn is_not_tried_again(stage: &mut Stage, code: Code, reason: &str) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let (id, op_id, _) = stage.acquiring(&mut stream, command).await?;
    stream.fail(op_id, code, reason);
    let failure = stage.driver.fails(id, "refused").await?;
    ensure!(failure.reason == reason, "{failure:?}");
    stream
        .quiet_until(Instant::now() + Duration::from_millis(400))
        .await
}

pub(super) async fn an_invalid_request_is_not_tried_again(stage: &mut Stage) -> Result<()> {
    is_not_tried_again(stage, Code::InvalidArgument, "INVALID_NAME").await
}

pub(super) async fn an_undone_grant_is_not_tried_again(stage: &mut Stage) -> Result<()> {
    is_not_tried_again(stage, Code::Unavailable, "NOT_REPLICATED").await
}

pub(super) async fn a_release_is_tried_again(stage: &mut Stage) -> Result<()> {
    let (mut stream, _) = stage.holding("a", "g").await?;
    let release = json!({ "do": "release", "guard": "g" });
    let id = stage.driver.send(release).await?;
    let (op_id, first) = stream.expect_release().await?;
    stream.fail(op_id, Code::Unavailable, "STORE_UNAVAILABLE");
    let (op_id, again) = stream.expect_release().await?;
    ensure!(again.request_id == first.request_id, "a new request id");
    stream.released(op_id);
    stage.driver.ok(id).await?;
    Ok(())
}

pub(super) async fn a_release_of_nothing_fails(stage: &mut Stage) -> Result<()> {
    let (mut stream, _) = stage.holding("a", "g").await?;
    let release = json!({ "do": "release", "guard": "g" });
    let id = stage.driver.send(release).await?;
    let (op_id, _) = stream.expect_release().await?;
    stream.fail(op_id, Code::FailedPrecondition, "NOT_OWNER");
    let failure = stage.driver.failure(id).await?;
    let is_told = failure.kind == "lost" || failure.reason == "NOT_OWNER";
    ensure!(is_told, "{failure:?}");
    Ok(())
}

/// The failure has ended what was sent, so the age of another answer to it is not known.
pub(super) async fn an_answer_during_the_pause_is_ignored(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let (id, op_id, first) = stage.acquiring(&mut stream, command).await?;
    stream.fail(op_id, Code::Unavailable, "OUTCOME_UNKNOWN");
    stream.grant(op_id, &first, TOKEN);
    let (op_id, again) = stream.expect_acquire().await?;
    ensure!(again.request_id == first.request_id, "a new request id");
    stream.grant(op_id, &again, TOKEN);
    stage.driver.ok(id).await?;
    Ok(())
}
