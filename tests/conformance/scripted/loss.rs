//! Losses, and what looks like one.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper_api::pb::{
    self, Grant, LockMode, LostReason, session_request::Request, session_response::Response,
};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tonic::Code;

use crate::{
    messages::{LEASE, TOKEN, TOLERANCE, proto},
    stage::Stage,
    stream::Stream,
};

pub(super) async fn a_loss_is_seen_at_once(stage: &mut Stage) -> Result<()> {
    let (stream, grant) = stage.holding("a", "g").await?;
    let sent_at = Instant::now();
    stream.lost(&grant, LostReason::TakenOver, "");
    let lost = stage.driver.lost("g").await?;
    let after = lost.at - sent_at;
    ensure!(after < Duration::from_millis(100), "{after:?}");
    Ok(())
}

pub(super) async fn a_loss_has_its_reason(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let reasons = [
        (LostReason::Expired, "EXPIRED"),
        (LostReason::TakenOver, "TAKEN_OVER"),
        (LostReason::StoreUnreachable, "STORE_UNREACHABLE"),
        (LostReason::ForceReleased, "FORCE_RELEASED"),
    ];
    for (reason, word) in reasons {
        let grant = stage.lock(&mut stream, word, word).await?;
        stream.lost(&grant, reason, "maintenance");
        let lost = stage.driver.lost(word).await?.event;
        ensure!(lost["reason"] == word, "{lost}");
        ensure!(lost["detail"] == "maintenance", "{lost}");
        let token = lost["fencing_token"].as_str();
        ensure!(token == Some(&*TOKEN.to_string()), "{lost}");
    }
    Ok(())
}

pub(super) async fn a_lost_lock_cannot_be_released(stage: &mut Stage) -> Result<()> {
    let (stream, grant) = stage.holding("a", "g").await?;
    stream.lost(&grant, LostReason::TakenOver, "");
    stage.driver.lost("g").await?;
    let release = json!({ "do": "release", "guard": "g" });
    let id = stage.driver.send(release).await?;
    let failure = stage.driver.fails(id, "lost").await?;
    ensure!(failure.reason == "TAKEN_OVER", "{failure:?}");
    Ok(())
}

pub(super) async fn the_loss_of_an_older_grant_is_ignored(stage: &mut Stage) -> Result<()> {
    let (stream, mut grant) = stage.holding("a", "g").await?;
    grant.fencing_token -= 1;
    stream.lost(&grant, LostReason::Expired, "");
    sleep(TOLERANCE).await;
    ensure!(stage.driver.losses("g") == 0, "it was lost");
    Ok(())
}

pub(super) async fn the_loss_of_another_lock_is_ignored(stage: &mut Stage) -> Result<()> {
    let (stream, mut grant) = stage.holding("a", "g").await?;
    grant.owner.push('x');
    stream.lost(&grant, LostReason::Expired, "");
    grant.name.push('x');
    stream.lost(&grant, LostReason::Expired, "");
    sleep(TOLERANCE).await;
    ensure!(stage.driver.losses("g") == 0, "it was lost");
    Ok(())
}

pub(super) async fn a_loss_during_the_release_is_not_reported(stage: &mut Stage) -> Result<()> {
    let (mut stream, grant) = stage.holding("a", "g").await?;
    let release = json!({ "do": "release", "guard": "g" });
    let id = stage.driver.send(release).await?;
    let (op_id, _) = stream.expect_release().await?;
    stream.lost(&grant, LostReason::Expired, "");
    stream.released(op_id);
    stage.driver.ok(id).await?;
    ensure!(stage.driver.losses("g") == 0, "reported");
    Ok(())
}

pub(super) async fn at_risk_is_not_a_loss(stage: &mut Stage) -> Result<()> {
    let (stream, _) = stage.holding("a", "g").await?;
    let risk = pb::SessionAtRisk {
        valid_for: proto(LEASE / 2),
    };
    stream.send(0, Response::AtRisk(risk));
    stage.driver.state("at_risk").await?;
    stream.send(0, Response::Recovered(pb::SessionRecovered {}));
    sleep(TOLERANCE).await;
    ensure!(stage.driver.losses("g") == 0, "it was lost");
    let ask = json!({ "do": "state", "guard": "g" });
    let seen = stage.driver.run(ask).await?;
    ensure!(seen["lost"] == false, "{seen}");
    Ok(())
}

pub(super) async fn a_loss_is_reported_once(stage: &mut Stage) -> Result<()> {
    let (stream, grant) = stage.holding("a", "g").await?;
    stream.lost(&grant, LostReason::TakenOver, "");
    stream.lost(&grant, LostReason::Expired, "");
    let lost = stage.driver.lost("g").await?;
    ensure!(lost.event["reason"] == "TAKEN_OVER", "{}", lost.event);
    sleep(TOLERANCE).await;
    ensure!(stage.driver.losses("g") == 1, "reported again");
    Ok(())
}

pub(super) async fn one_of_several_locks_is_lost(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire_all", "names": ["a", "b"], "guard": "g" });
    let id = stage.driver.send(command).await?;
    let (op_id, request) = stream.expect_acquire_all().await?;
    let grants = stream.grant_all(op_id, &request);
    stage.driver.ok(id).await?;
    for grant in &grants {
        stream.lost(grant, LostReason::TakenOver, "");
    }
    stage.driver.lost("g").await?;
    sleep(TOLERANCE).await;
    ensure!(stage.driver.losses("g") == 1, "reported again");
    Ok(())
}

/// They are one grant, which is renewed, named and lost once, and released in the modes of both.
pub(super) async fn an_exclusive_hold_and_a_fair_one_are_one_grant(
    stage: &mut Stage,
) -> Result<()> {
    let mut stream = stage.connect().await?;
    for (guard, mode) in [("g", "exclusive"), ("h", "fair")] {
        let command = json!({
            "do": "acquire", "name": "a", "guard": guard, "mode": mode, "owner": "me",
        });
        let (id, op_id, request) = stage.acquiring(&mut stream, command).await?;
        stream.grant(op_id, &request, TOKEN);
        stage.driver.ok(id).await?;
    }
    stream.break_off();
    let (mut stream, resume) = stage.resumed(1).await?;
    let named = &resume.grants;
    ensure!(named.len() == 1, "one named grant expected: {named:?}");
    let lost = Grant {
        mode: LockMode::Exclusive.into(),
        ..named[0].clone()
    };
    stream.lost(&lost, LostReason::ForceReleased, "");
    for guard in ["g", "h"] {
        stage.driver.lost(guard).await?;
    }
    for (guard, mode) in [("g", LockMode::Exclusive), ("h", LockMode::Fair)] {
        let release = json!({ "do": "release", "guard": guard });
        let id = stage.driver.send(release).await?;
        stage.driver.fails(id, "lost").await?;
        let (op_id, release) = stream.expect_release().await?;
        let is_exclusive = release.mode() == LockMode::Unspecified && mode == LockMode::Exclusive;
        ensure!(release.mode() == mode || is_exclusive, "{release:?}");
        stream.released(op_id);
    }
    Ok(())
}

/// The id of the command that a handler runs.
const ANEW: u64 = 1000;

/// Holds a lock whose loss is handled by acquiring it anew.
async fn acquiring_anew(stage: &mut Stage, stream: &mut Stream) -> Result<Grant> {
    let handler = json!({ "id": ANEW, "do": "acquire", "name": "a", "guard": "h" });
    let command = json!({ "do": "acquire", "name": "a", "guard": "g", "on_lost": handler });
    let (id, op_id, request) = stage.acquiring(stream, command).await?;
    let grant = stream.grant(op_id, &request, TOKEN);
    stage.driver.ok(id).await?;
    Ok(grant)
}

/// Grants what the handler asks for. What was lost may be released before.
async fn granted_anew(stage: &mut Stage, stream: &mut Stream) -> Result<()> {
    loop {
        let frame = stream.next("the acquire of the handler").await?;
        if let Request::Acquire(request) = frame.request {
            stream.grant(frame.op_id, &request, TOKEN + 1);
            break;
        }
    }
    stage.driver.ok(ANEW).await?;
    Ok(())
}

pub(super) async fn a_handler_can_acquire_anew(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let grant = acquiring_anew(stage, &mut stream).await?;
    stream.lost(&grant, LostReason::ForceReleased, "");
    granted_anew(stage, &mut stream).await
}

/// The session has ended by the time that a handler learns of it, so the acquire opens another.
pub(super) async fn a_handler_can_acquire_anew_when_the_session_has_ended(
    stage: &mut Stage,
) -> Result<()> {
    let mut stream = stage.connect().await?;
    acquiring_anew(stage, &mut stream).await?;
    stream.break_off();
    for coordinator in [1, 0] {
        let (next, _) = stage.resuming(coordinator).await?;
        next.refuse(Code::NotFound, "SESSION_NOT_FOUND");
    }
    let mut stream = stage.accept_any().await?;
    stream.expect_open().await?;
    stream.opened();
    granted_anew(stage, &mut stream).await
}
