//! Requests, and the answers that end them.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper_api::pb::{self, LockMode, NotGrantedReason, session_response::Response};
use serde_json::json;

use crate::{
    messages::{FRAME_MAX, LEASE, TOKEN, proto},
    stage::Stage,
};

pub(super) async fn a_grant_with_a_large_token_is_exact(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let (id, op_id, request) = stage.acquiring(&mut stream, command).await?;
    ensure!(
        request.name == "a" && request.lease.is_none(),
        "{request:?}"
    );
    stream.grant(op_id, &request, u64::MAX - 1);
    let granted = stage.driver.ok(id).await?;
    let token = (u64::MAX - 1).to_string();
    ensure!(granted["fencing_token"] == token, "{granted}");
    Ok(())
}

pub(super) async fn not_granted_is_not_an_error_of_the_session(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g", "wait_ms": 1000 });
    let (id, op_id, _) = stage.acquiring(&mut stream, command).await?;
    stream.not_granted(op_id, NotGrantedReason::WaitTimeout);
    let failure = stage.driver.fails(id, "not_granted").await?;
    ensure!(failure.reason == "WAIT_TIMEOUT", "{failure:?}");
    stage.lock(&mut stream, "b", "h").await?;
    Ok(())
}

pub(super) async fn waiting_does_not_end_a_wait(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let (id, op_id, request) = stage.acquiring(&mut stream, command).await?;
    for position in [2, 1] {
        let waiting = pb::Waiting {
            holder_note: None,
            position,
            holder_remaining_lease: None,
        };
        stream.send(op_id, Response::Waiting(waiting));
    }
    stage.lock(&mut stream, "b", "h").await?;
    ensure!(!stage.driver.is_answered(id), "answered while it waits");
    stream.grant(op_id, &request, TOKEN);
    stage.driver.ok(id).await?;
    Ok(())
}

pub(super) async fn answers_out_of_order_reach_their_callers(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let first = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let (first, first_op, first_request) = stage.acquiring(&mut stream, first).await?;
    let second = json!({ "do": "acquire", "name": "b", "guard": "h" });
    let (second, second_op, second_request) = stage.acquiring(&mut stream, second).await?;
    ensure!(first_op != second_op, "one op_id for two operations");
    stream.grant(second_op, &second_request, TOKEN + 1);
    let granted = stage.driver.ok(second).await?;
    ensure!(granted["fencing_token"] == (TOKEN + 1).to_string());
    ensure!(!stage.driver.is_answered(first), "the wrong caller");
    stream.grant(first_op, &first_request, TOKEN);
    let granted = stage.driver.ok(first).await?;
    ensure!(granted["fencing_token"] == TOKEN.to_string());
    Ok(())
}

pub(super) async fn an_answer_twice_counts_once(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let (id, op_id, request) = stage.acquiring(&mut stream, command).await?;
    stream.grant(op_id, &request, TOKEN);
    stream.grant(op_id, &request, TOKEN);
    stage.driver.ok(id).await?;
    // Nothing is released: the second answer belongs to nobody.
    stage.lock(&mut stream, "b", "h").await?;
    ensure!(stage.driver.losses("g") == 0, "it was lost");
    Ok(())
}

pub(super) async fn an_unknown_answer_is_ignored(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    stream.released(4711);
    stream.not_granted(4712, NotGrantedReason::WaitTimeout);
    stage.lock(&mut stream, "a", "g").await?;
    Ok(())
}

pub(super) async fn an_empty_frame_is_ignored(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    stream.send_empty();
    stage.lock(&mut stream, "a", "g").await?;
    Ok(())
}

pub(super) async fn each_acquire_has_an_owner_of_its_own(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let mut owners = Vec::new();
    for guard in ["g", "h"] {
        let command = json!({ "do": "acquire", "name": "a", "guard": guard });
        stage.driver.send(command).await?;
        owners.push(stream.expect_acquire().await?.1.owner);
    }
    ensure!(owners[0] != owners[1], "two tasks would share the lock");
    Ok(())
}

pub(super) async fn an_owner_is_used_as_given(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    for guard in ["g", "h"] {
        let command = json!({ "do": "acquire", "name": "a", "guard": guard, "owner": "me" });
        let (id, op_id, request) = stage.acquiring(&mut stream, command).await?;
        ensure!(request.owner == "me", "{request:?}");
        stream.grant(op_id, &request, TOKEN);
        stage.driver.ok(id).await?;
    }
    // Each guard gives one hold back.
    for guard in ["g", "h"] {
        let command = json!({ "do": "release", "guard": guard });
        let id = stage.driver.send(command).await?;
        let (op_id, _) = stream.expect_release().await?;
        stream.released(op_id);
        stage.driver.ok(id).await?;
    }
    Ok(())
}

pub(super) async fn the_options_of_an_acquire_are_sent(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let modes = [
        ("exclusive", LockMode::Exclusive),
        ("fair", LockMode::Fair),
        ("read", LockMode::Read),
        ("write", LockMode::Write),
    ];
    for (word, mode) in modes {
        let command = json!({
            "do": "acquire", "name": word, "guard": word, "mode": word, "wait_ms": 4000,
            "lease_ms": 2000, "min_replica_acks": 2,
        });
        let (_, _, request) = stage.acquiring(&mut stream, command).await?;
        let asked = request.mode();
        let is_exclusive = asked == LockMode::Unspecified && mode == LockMode::Exclusive;
        ensure!(asked == mode || is_exclusive, "{request:?}");
        ensure!(
            request.lease == proto(Duration::from_secs(2)),
            "{request:?}"
        );
        ensure!(request.min_replica_acks == 2, "{request:?}");
        let wait = request
            .wait_timeout
            .and_then(|it| Duration::try_from(it).ok());
        let wait = wait.unwrap_or_default();
        let is_near = wait > Duration::from_millis(3500) && wait <= Duration::from_secs(4);
        ensure!(is_near, "{request:?}");
    }
    Ok(())
}

pub(super) async fn a_try_that_fails_is_not_granted(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "try_acquire", "name": "a", "guard": "g" });
    let id = stage.driver.send(command).await?;
    let (op_id, _) = stream.expect_try_acquire().await?;
    let busy = pb::TryAcquireResponse {
        holder_note: None,
        acquired: false,
        grant: None,
        holder_remaining_lease: proto(LEASE),
    };
    stream.send(op_id, Response::Tried(busy));
    stage.driver.fails(id, "not_granted").await?;
    Ok(())
}

pub(super) async fn several_locks_are_one_guard(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire_all", "names": ["b", "a"], "guard": "g" });
    let id = stage.driver.send(command).await?;
    let (op_id, request) = stream.expect_acquire_all().await?;
    ensure!(request.locks.len() == 2, "{request:?}");
    stream.grant_all(op_id, &request);
    let granted = stage.driver.ok(id).await?;
    ensure!(granted["fencing_tokens"]["b"].is_string(), "{granted}");
    let id = stage
        .driver
        .send(json!({ "do": "release", "guard": "g" }))
        .await?;
    let (op_id, request) = stream.expect_release_all().await?;
    ensure!(request.locks.len() == 2, "{request:?}");
    stream.send(
        op_id,
        Response::ReleasedAll(pb::ReleaseAllResponse::default()),
    );
    stage.driver.ok(id).await?;
    Ok(())
}

pub(super) async fn several_locks_that_are_busy_are_not_granted(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire_all", "names": ["a", "b"], "guard": "g" });
    let id = stage.driver.send(command).await?;
    let (op_id, _) = stream.expect_acquire_all().await?;
    let waiting = pb::WaitingForAll {
        name: "b".to_owned(),
        waiting: None,
    };
    stream.send(op_id, Response::WaitingForAll(waiting));
    stream.not_granted(op_id, NotGrantedReason::WaitTimeout);
    stage.driver.fails(id, "not_granted").await?;
    Ok(())
}

pub(super) async fn permits_are_acquired_and_released(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire_permits", "name": "s", "permits": 2, "guard": "g" });
    let id = stage.driver.send(command).await?;
    let (op_id, request) = stream.expect_acquire_permits().await?;
    ensure!(request.permits == 2, "{request:?}");
    stream.grant_permits(op_id, &request);
    let granted = stage.driver.ok(id).await?;
    let ids = granted["permit_ids"].as_array().map(Vec::len);
    ensure!(ids == Some(2), "{granted}");
    let release = json!({ "do": "release", "guard": "g" });
    let id = stage.driver.send(release).await?;
    let (op_id, request) = stream.expect_release_permits().await?;
    ensure!(request.permit_ids.len() == 2, "{request:?}");
    stream.send(
        op_id,
        Response::PermitsReleased(pb::ReleasePermitsResponse::default()),
    );
    stage.driver.ok(id).await?;
    Ok(())
}

pub(super) async fn a_latch_opens(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let id = stage
        .driver
        .send(json!({ "do": "await_latch", "name": "l" }))
        .await?;
    let (op_id, _) = stream.expect_await_latch().await?;
    stream.send(
        op_id,
        Response::WaitingForLatch(pb::WaitingForLatch::default()),
    );
    stream.send(op_id, Response::LatchOpened(pb::LatchOpened::default()));
    stage.driver.ok(id).await?;
    Ok(())
}

pub(super) async fn a_latch_that_stays_closed(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "await_latch", "name": "l", "wait_ms": 500 });
    let id = stage.driver.send(command).await?;
    let (op_id, _) = stream.expect_await_latch().await?;
    stream.send(
        op_id,
        Response::LatchNotOpened(pb::LatchNotOpened::default()),
    );
    stage.driver.fails(id, "not_granted").await?;
    Ok(())
}

/// More than fits a window of flow control, unless the answers are read.
pub(super) async fn two_hundred_acquires_at_once(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let long = "x".repeat(400);
    let mut ids = Vec::new();
    for number in 0..200 {
        let name = format!("{long}-{number}");
        let command = json!({ "do": "acquire", "name": name, "guard": number.to_string() });
        ids.push(stage.driver.send(command).await?);
    }
    for _ in 0..200 {
        let (op_id, request) = stream.expect_acquire().await?;
        stream.grant(op_id, &request, TOKEN);
    }
    for id in ids {
        stage.driver.ok(id).await?;
    }
    Ok(())
}

/// It would end the stream, and the next ones after each resume.
pub(super) async fn an_operation_above_the_limit_is_not_sent(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let name = "n".repeat(FRAME_MAX);
    let command = json!({ "do": "acquire", "name": name, "guard": "g" });
    let id = stage.driver.send(command).await?;
    let failure = stage.driver.fails(id, "misconfigured").await?;
    let limit = FRAME_MAX.to_string();
    ensure!(failure.message.contains(&limit), "no limit: {failure:?}");
    stage.lock(&mut stream, "b", "h").await?;
    ensure!(!stage.has_come(0) && !stage.has_come(1), "it reconnected");
    Ok(())
}

/// A coordinator may have a smaller limit. It names it when it ends the stream.
pub(super) async fn an_operation_that_ended_the_stream_does_not_end_the_next(
    stage: &mut Stage,
) -> Result<()> {
    let mut stream = stage.connect().await?;
    let names = [("n".repeat(2000), "g"), ("a".to_owned(), "h")];
    let [large, small] =
        names.map(|(name, guard)| json!({ "do": "acquire", "name": name, "guard": guard }));
    let refused = stage.driver.send(large.clone()).await?;
    stream.expect_acquire().await?;
    let (granted, _, first) = stage.acquiring(&mut stream, small).await?;
    stream.refuse_as_too_large(2000);
    let failure = stage.driver.fails(refused, "misconfigured").await?;
    ensure!(failure.message.contains("2000"), "no limit: {failure:?}");
    let (mut stream, _) = stage.resumed(1).await?;
    let (op_id, again) = stream.expect_acquire().await?;
    ensure!(again.request_id == first.request_id, "{again:?}");
    stream.grant(op_id, &again, TOKEN);
    stage.driver.ok(granted).await?;
    let refused = stage.driver.send(large).await?;
    stage.driver.fails(refused, "misconfigured").await?;
    stage.lock(&mut stream, "b", "i").await?;
    Ok(())
}
