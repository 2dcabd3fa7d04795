//! Offers, and claims of their tickets.

use anyhow::{Result, ensure};
use lockkeeper_api::pb::{
    ClaimRequest, ClaimResponse, Grant, LockMode, LostReason, OfferResponse,
    session_response::Response,
};
use serde_json::json;
use tokio::time::Instant;
use tonic::Code;

use crate::{
    messages::{LEASE, TOKEN, TOLERANCE, named, proto},
    stage::Stage,
    stream::Stream,
};

async fn claim(stage: &mut Stage, stream: &mut Stream) -> Result<(u64, u64, ClaimRequest)> {
    let command = json!({ "do": "claim", "name": "a", "ticket": "secret", "guard": "g" });
    let id = stage.driver.send(command).await?;
    let (op_id, request) = stream.expect_claim().await?;
    ensure!(request.name == "a", "{request:?}");
    ensure!(request.ticket == "secret", "{request:?}");
    ensure!(!request.owner.is_empty(), "{request:?}");
    Ok((id, op_id, request))
}

pub(super) async fn a_claim_is_a_guard(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let (id, op_id, request) = claim(stage, &mut stream).await?;
    let grant = Grant {
        hold_count: 1,
        fencing_token: TOKEN,
        lease: proto(LEASE),
        valid_for: proto(LEASE),
        watched: true,
        ..named("a", &request.owner, LockMode::Exclusive.into())
    };
    let claimed = ClaimResponse {
        grant: Some(grant.clone()),
    };
    stream.send(op_id, Response::Claimed(claimed));
    let guard = stage.driver.ok(id).await?;
    ensure!(
        guard["fencing_token"] == json!(TOKEN.to_string()),
        "{guard}"
    );
    let release = json!({ "do": "release", "guard": "g" });
    let id = stage.driver.send(release).await?;
    let (op_id, release) = stream.expect_release().await?;
    ensure!(release.owner == request.owner, "{release:?}");
    stream.released(op_id);
    stage.driver.ok(id).await?;
    Ok(())
}

pub(super) async fn a_claim_that_is_refused_is_not_repeated(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let (id, op_id, _) = claim(stage, &mut stream).await?;
    stream.fail(op_id, Code::FailedPrecondition, "TICKET_REFUSED");
    let failure = stage.driver.fails(id, "refused").await?;
    ensure!(failure.reason == "TICKET_REFUSED", "{failure:?}");
    stream.quiet_until(Instant::now() + TOLERANCE).await
}

pub(super) async fn the_giver_is_told(stage: &mut Stage) -> Result<()> {
    let (mut stream, grant) = stage.holding("a", "g").await?;
    let offer = json!({ "do": "offer", "guard": "g" });
    let id = stage.driver.send(offer).await?;
    let (op_id, request) = stream.expect_offer().await?;
    ensure!(request.name == "a", "{request:?}");
    ensure!(request.owner == grant.owner, "{request:?}");
    let offered = OfferResponse {
        ticket: "secret".to_owned(),
        within: proto(LEASE),
    };
    stream.send(op_id, Response::Offered(offered));
    let offered = stage.driver.ok(id).await?;
    ensure!(offered["ticket"] == "secret", "{offered}");
    ensure!(stage.driver.losses("g") == 0, "an offer changes nothing");
    stream.lost(&grant, LostReason::HandedOver, "");
    let lost = stage.driver.lost("g").await?.event;
    ensure!(lost["reason"] == "HANDED_OVER", "{lost}");
    Ok(())
}
