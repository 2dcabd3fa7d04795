//! Cancelling, closing and releasing.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper_api::pb::{NotGrantedReason, SessionGoingAway, session_response::Response};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    messages::{TOKEN, TOLERANCE},
    stage::Stage,
};

pub(super) async fn a_cancel_is_sent(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let (id, op_id, _) = stage.acquiring(&mut stream, command).await?;
    let cancel = stage
        .driver
        .send(json!({ "do": "cancel", "target": id }))
        .await?;
    stage.driver.ok(cancel).await?;
    stage.driver.fails(id, "cancelled").await?;
    let (cancelled, _) = stream.expect_cancel().await?;
    ensure!(cancelled == op_id, "another operation was cancelled");
    stream.not_granted(op_id, NotGrantedReason::Cancelled);
    stage.lock(&mut stream, "b", "h").await?;
    Ok(())
}

pub(super) async fn a_grant_after_a_cancel_is_released(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let (id, op_id, request) = stage.acquiring(&mut stream, command).await?;
    let cancel = json!({ "do": "cancel", "target": id });
    stage.driver.run(cancel).await?;
    stream.expect_cancel().await?;
    stream.grant(op_id, &request, TOKEN);
    let (op_id, release) = stream.expect_release().await?;
    ensure!(release.name == "a", "{release:?}");
    ensure!(release.owner == request.owner, "{release:?}");
    stream.released(op_id);
    Ok(())
}

/// An acquire that is cancelled before it could be sent is never sent.
pub(super) async fn a_cancel_before_sending(stage: &mut Stage) -> Result<()> {
    let stream = stage.connect().await?;
    stream.break_off();
    let (mut next, _) = stage.resuming(1).await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let id = stage.driver.send(command).await?;
    let cancel = json!({ "do": "cancel", "target": id });
    stage.driver.run(cancel).await?;
    stage.driver.fails(id, "cancelled").await?;
    next.opened();
    next.quiet_until(Instant::now() + TOLERANCE).await
}

pub(super) async fn close_ends_the_stream(stage: &mut Stage) -> Result<()> {
    let (mut stream, _) = stage.holding("a", "g").await?;
    let id = stage.driver.send(json!({ "do": "close" })).await?;
    stream.expect_close().await?;
    // Some proxies pass the end of the stream on only then.
    stream.expect_half_close().await?;
    stream.finish();
    stage.driver.ok(id).await?;
    sleep(TOLERANCE).await;
    ensure!(!stage.has_come(0) && !stage.has_come(1), "it came back");
    Ok(())
}

pub(super) async fn close_without_an_answer_ends_too(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let begun = Instant::now();
    let id = stage.driver.send(json!({ "do": "close" })).await?;
    stream.expect_close().await?;
    // Whether that is an error is a matter of the language.
    while !stage.driver.is_answered(id) {
        ensure!(begun.elapsed() < Duration::from_secs(4), "it does not end");
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

pub(super) async fn close_ends_the_waits(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let (waiting, op_id, _) = stage.acquiring(&mut stream, command).await?;
    stage.driver.send(json!({ "do": "close" })).await?;
    stream.expect_close().await?;
    stream.not_granted(op_id, NotGrantedReason::Cancelled);
    stream.finish();
    stage.driver.fails(waiting, "session_ended").await?;
    Ok(())
}

pub(super) async fn an_idle_stream_is_not_closed(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    stream
        .quiet_until(Instant::now() + Duration::from_secs(4))
        .await?;
    stage.lock(&mut stream, "a", "g").await?;
    Ok(())
}

pub(super) async fn a_guard_is_released_once(stage: &mut Stage) -> Result<()> {
    let (mut stream, _) = stage.holding("a", "g").await?;
    let release = json!({ "do": "release", "guard": "g" });
    let first = stage.driver.send(release.clone()).await?;
    let (op_id, _) = stream.expect_release().await?;
    let second = stage.driver.send(release).await?;
    stream.released(op_id);
    stage.driver.ok(first).await?;
    while !stage.driver.is_answered(second) {
        sleep(Duration::from_millis(10)).await;
    }
    stream.quiet_until(Instant::now() + TOLERANCE).await
}

pub(super) async fn the_end_of_input_closes(stage: &mut Stage) -> Result<()> {
    let (mut stream, _) = stage.holding("a", "g").await?;
    let driver = &mut stage.driver;
    let (ended, closed) = tokio::join!(driver.end(), async {
        stream.expect_end().await?;
        stream.finish();
        anyhow::Ok(())
    });
    ended?;
    closed
}

/// A coordinator that goes away may not have closed the session: the next one is asked again.
pub(super) async fn close_is_sent_to_the_next_coordinator(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let id = stage.driver.send(json!({ "do": "close" })).await?;
    stream.expect_close().await?;
    stream.send(0, Response::GoingAway(SessionGoingAway {}));
    let (mut next, _) = stage.resumed(1).await?;
    ensure!(!stage.driver.is_answered(id), "nobody has confirmed it");
    next.expect_close().await?;
    next.finish();
    stage.driver.ok(id).await?;
    Ok(())
}
