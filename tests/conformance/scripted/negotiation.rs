//! Requests to yield, notes, and leaders.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_api::pb::{
    Grant, LockMode, LostReason, ProclaimResponse, YieldRequested, session_request::Request,
    session_response::Response,
};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tonic::Code;

use crate::{
    messages::{TOKEN, TOLERANCE, proto},
    stage::Stage,
    stream::Stream,
};

const WITHIN: Duration = Duration::from_secs(30);

fn ask(stream: &Stream, grant: &Grant, reason: &str) {
    let notice = YieldRequested {
        grant: Some(grant.clone()),
        by: "deploy".to_owned(),
        reason: reason.to_owned(),
        within: proto(WITHIN),
        preempt: false,
    };
    stream.send(0, Response::YieldRequested(notice));
}

pub(super) async fn a_request_to_yield_is_seen_once(stage: &mut Stage) -> Result<()> {
    let (mut stream, grant) = stage.holding("a", "g").await?;
    ask(&stream, &grant, "release 1.4");
    let seen = stage.driver.asked("a").await?.event;
    ensure!(seen["by"] == "deploy", "{seen}");
    ensure!(seen["reason"] == "release 1.4", "{seen}");
    ensure!(seen["preempts"] == false, "{seen}");
    // It neither releases nor loses the lock.
    stream.quiet_until(Instant::now() + TOLERANCE).await?;
    ensure!(stage.driver.requests("a") == 1, "seen again");
    ensure!(stage.driver.losses("g") == 0, "it was lost");
    Ok(())
}

pub(super) async fn a_request_to_an_older_grant_is_ignored(stage: &mut Stage) -> Result<()> {
    let (mut stream, mut grant) = stage.holding("a", "g").await?;
    grant.fencing_token -= 1;
    ask(&stream, &grant, "too late");
    stream.quiet_until(Instant::now() + TOLERANCE).await?;
    ensure!(stage.driver.requests("a") == 0, "it was asked");
    Ok(())
}

pub(super) async fn a_note_is_sent(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let labels = json!({ "team": "web" });
    let command = json!({
        "do": "acquire", "name": "a", "guard": "g", "reason": "release 1.4", "labels": labels,
    });
    let (id, op_id, request) = stage.acquiring(&mut stream, command).await?;
    let note = request.note.as_ref().context("no note")?;
    ensure!(note.reason == "release 1.4", "{note:?}");
    let team = note.labels.get("team").map(String::as_str);
    ensure!(note.labels.len() == 1 && team == Some("web"), "{note:?}");
    stream.grant(op_id, &request, TOKEN);
    stage.driver.ok(id).await?;
    Ok(())
}

pub(super) async fn a_note_over_the_limit_is_refused(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let reason = "x".repeat(257);
    let command = json!({ "do": "acquire", "name": "a", "guard": "g", "reason": reason });
    let (id, op_id, _) = stage.acquiring(&mut stream, command).await?;
    stream.fail(op_id, Code::InvalidArgument, "INVALID_NOTE");
    let failure = stage.driver.fails(id, "refused").await?;
    ensure!(failure.reason == "INVALID_NOTE", "{failure:?}");
    Ok(())
}

/// Makes the driver lead, with the value `one`.
async fn lead(stage: &mut Stage, stream: &mut Stream) -> Result<Grant> {
    let command = json!({ "do": "campaign", "name": "e", "guard": "g", "value": "one" });
    let (id, op_id, request) = stage.acquiring(stream, command).await?;
    ensure!(request.mode() == LockMode::Fair, "{request:?}");
    let grant = stream.grant(op_id, &request, TOKEN);
    proclaimed(stream, &grant, "one", 1).await?;
    stage.driver.ok(id).await?;
    Ok(grant)
}

async fn proclaimed(stream: &mut Stream, of: &Grant, value: &str, revision: u64) -> Result<()> {
    let (op_id, proclaim) = stream.expect_proclaim().await?;
    ensure!(proclaim.value == value, "{proclaim:?}");
    ensure!(proclaim.term == of.fencing_token, "{proclaim:?}");
    ensure!(
        proclaim.name == of.name && proclaim.owner == of.owner,
        "{proclaim:?}"
    );
    stream.send(op_id, Response::Proclaimed(ProclaimResponse { revision }));
    Ok(())
}

pub(super) async fn a_leader_proclaims_with_its_term(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let grant = lead(stage, &mut stream).await?;
    let command = json!({ "do": "proclaim", "guard": "g", "value": "two" });
    let id = stage.driver.send(command).await?;
    proclaimed(&mut stream, &grant, "two", TOKEN).await?;
    let ok = stage.driver.ok(id).await?;
    ensure!(ok["revision"] == json!(TOKEN.to_string()), "{ok}");
    Ok(())
}

pub(super) async fn a_former_leader_cannot_proclaim(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let grant = lead(stage, &mut stream).await?;
    stream.lost(&grant, LostReason::TakenOver, "");
    stage.driver.lost("g").await?;
    let command = json!({ "do": "proclaim", "guard": "g", "value": "late" });
    let id = stage.driver.send(command).await?;
    // A client refuses it itself, or passes on that the coordinator does.
    while !stage.driver.is_answered(id) {
        match stream.try_next() {
            Some(frame) => match frame.request {
                Request::Proclaim(_) => stream.fail_taken(frame.op_id),
                // A lost lock may be released.
                other => ensure!(matches!(other, Request::Release(_)), "{other:?}"),
            },
            None => sleep(Duration::from_millis(5)).await,
        }
    }
    let failure = stage.driver.failure(id).await?;
    let of_client = failure.kind == "lost" && failure.reason == "TAKEN_OVER";
    let of_coordinator = failure.kind == "refused" && failure.reason == "NOT_OWNER";
    ensure!(of_client || of_coordinator, "{failure:?}");
    Ok(())
}
