//! Losses, and what looks like one.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper_api::pb::{self, LostReason, session_response::Response};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    messages::{LEASE, TOKEN, TOLERANCE, proto},
    stage::Stage,
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
