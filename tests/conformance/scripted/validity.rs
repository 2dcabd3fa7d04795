//! Until when a grant is held, and its renewal.

use std::{sync::atomic::Ordering, time::Duration};

use anyhow::{Result, ensure};
use lockkeeper_api::pb::{self, session_request::Request, session_response::Response};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::Code;

use crate::{
    messages::{LEASE, RENEW_INTERVAL, TOKEN, TOLERANCE, proto},
    stage::Stage,
    stream::Stream,
};

/// Drivers count in whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

/// How long a guard is valid, as its user sees it. The most that it may be is computed before this
/// is asked, because the driver may take long to answer.
async fn valid_for(stage: &mut Stage, guard: &str) -> Result<Duration> {
    let ask = json!({ "do": "state", "guard": guard });
    let seen = stage.driver.run(ask).await?;
    let millis = seen["valid_ms"].as_f64().unwrap_or_default().max(0.0);
    Ok(Duration::from_secs_f64(millis / 1000.0))
}

pub(super) async fn validity_counts_from_the_request(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    stream.habits().renews.store(false, Ordering::Relaxed);
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let sent_at = Instant::now();
    let (id, op_id, request) = stage.acquiring(&mut stream, command).await?;
    let received_at = Instant::now();
    sleep(Duration::from_millis(600)).await;
    stream.grant(op_id, &request, TOKEN);
    stage.driver.ok(id).await?;
    let most = LEASE.saturating_sub(received_at.elapsed());
    let valid = valid_for(stage, "g").await?;
    ensure!(
        valid <= most + ROUNDING,
        "more than {most:?} left: {valid:?}"
    );
    let least = LEASE.saturating_sub(sent_at.elapsed());
    ensure!(valid + TOLERANCE > least, "{valid:?} of {least:?}");
    Ok(())
}

pub(super) async fn a_grant_is_renewed_in_time(stage: &mut Stage) -> Result<()> {
    let (stream, _) = stage.holding("a", "g").await?;
    let granted_at = Instant::now();
    sleep(RENEW_INTERVAL * 3 + TOLERANCE).await;
    let renewals = stream.habits().renewals.lock().clone();
    ensure!(renewals.len() == 3, "{} renewals", renewals.len());
    for (number, at) in (1..).zip(renewals) {
        let due = granted_at + RENEW_INTERVAL * number;
        let off = at.max(due) - at.min(due);
        ensure!(off < TOLERANCE, "renewal {number} is {off:?} off");
    }
    ensure!(stage.driver.losses("g") == 0, "it was lost");
    Ok(())
}

/// Answers a renewal for the whole lease.
fn renewed(stream: &Stream, op_id: u64, request: &pb::RenewRequest, watched: bool) {
    let grant = pb::Grant {
        hold_count: 1,
        fencing_token: TOKEN,
        lease: request.lease.or(proto(LEASE)),
        valid_for: request.lease.or(proto(LEASE)),
        watched,
        ..crate::messages::named(&request.name, &request.owner, request.mode)
    };
    let renewed = pb::RenewResponse { grant: Some(grant) };
    stream.send(op_id, Response::Renewed(renewed));
}

pub(super) async fn renewals_count_from_the_request(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    stream.habits().renews.store(false, Ordering::Relaxed);
    stage.lock(&mut stream, "a", "g").await?;
    let first = stream.next("renew").await?.at;
    let (op_id, request) = {
        let renewals = stream.habits().renewals.lock().len();
        ensure!(renewals == 1, "{renewals} renewals");
        stream.last_renewal()
    };
    sleep(Duration::from_millis(600)).await;
    renewed(&stream, op_id, &request, true);
    let second = stream.next("renew").await?.at;
    let between = second - first;
    ensure!(
        between < RENEW_INTERVAL + TOLERANCE,
        "renewed after {between:?}"
    );
    let (op_id, request) = stream.last_renewal();
    renewed(&stream, op_id, &request, true);
    let most = LEASE.saturating_sub(second.elapsed());
    let valid = valid_for(stage, "g").await?;
    ensure!(valid <= most + ROUNDING, "{valid:?} of {most:?}");
    Ok(())
}

pub(super) async fn a_renewal_without_an_answer_ends_with_the_lease(
    stage: &mut Stage,
) -> Result<()> {
    let mut stream = stage.connect().await?;
    stream.habits().renews.store(false, Ordering::Relaxed);
    let sent_at = Instant::now();
    stage.lock(&mut stream, "a", "g").await?;
    let lost = stage.driver.lost("g").await?;
    ensure!(lost.event["reason"] == "EXPIRED", "{}", lost.event);
    let after = lost.at - sent_at;
    ensure!(after < LEASE + TOLERANCE, "{after:?}");
    ensure!(after + TOLERANCE > LEASE, "{after:?}");
    Ok(())
}

pub(super) async fn a_renewal_of_a_lock_that_another_holds(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    stream.habits().renews.store(false, Ordering::Relaxed);
    stage.lock(&mut stream, "a", "g").await?;
    let frame = stream.next("renew").await?;
    stream.fail_taken(frame.op_id);
    let failed_at = Instant::now();
    let lost = stage.driver.lost("g").await?;
    ensure!(lost.event["reason"] == "TAKEN_OVER", "{}", lost.event);
    ensure!(lost.at - failed_at < TOLERANCE, "late");
    Ok(())
}

pub(super) async fn a_renewal_that_fails_is_repeated(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    stream.habits().renews.store(false, Ordering::Relaxed);
    stage.lock(&mut stream, "a", "g").await?;
    let first = stream.next("renew").await?;
    stream.fail(first.op_id, Code::Unavailable, "STORE_UNAVAILABLE");
    let second = stream.next("renew").await?;
    ensure!(second.at - first.at < Duration::from_millis(800), "late");
    stream.habits().renews.store(true, Ordering::Relaxed);
    let (op_id, request) = stream.last_renewal();
    renewed(&stream, op_id, &request, true);
    sleep(LEASE).await;
    ensure!(stage.driver.losses("g") == 0, "it was lost");
    Ok(())
}

pub(super) async fn a_late_grant_is_renewed_first(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    stream.habits().renews.store(false, Ordering::Relaxed);
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let (id, op_id, request) = stage.acquiring(&mut stream, command).await?;
    sleep(LEASE / 2).await;
    stream.grant(op_id, &request, TOKEN);
    let renewal = stream.next("renew").await?;
    ensure!(
        !stage.driver.is_answered(id),
        "delivered before it is known"
    );
    let (op_id, request) = stream.last_renewal();
    renewed(&stream, op_id, &request, true);
    stage.driver.ok(id).await?;
    let valid = valid_for(stage, "g").await?;
    let most = LEASE.saturating_sub(renewal.at.elapsed());
    ensure!(valid + TOLERANCE > most, "{valid:?}");
    Ok(())
}

pub(super) async fn a_released_grant_is_not_renewed(stage: &mut Stage) -> Result<()> {
    let (mut stream, _) = stage.holding("a", "g").await?;
    let release = json!({ "do": "release", "guard": "g" });
    let id = stage.driver.send(release).await?;
    let (op_id, _) = stream.expect_release().await?;
    stream.released(op_id);
    stage.driver.ok(id).await?;
    sleep(RENEW_INTERVAL * 2).await;
    let renewals = stream.habits().renewals.lock().len();
    ensure!(renewals == 0, "{renewals} renewals");
    Ok(())
}

pub(super) async fn a_lease_of_the_request_is_not_renewed(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let lease = Duration::from_millis(1500);
    let command = json!({ "do": "acquire", "name": "a", "guard": "g", "lease_ms": 1500 });
    let sent_at = Instant::now();
    let (id, op_id, request) = stage.acquiring(&mut stream, command).await?;
    stream.grant(op_id, &request, TOKEN);
    stage.driver.ok(id).await?;
    let lost = stage.driver.lost("g").await?;
    ensure!(lost.event["reason"] == "EXPIRED", "{}", lost.event);
    let after = lost.at - sent_at;
    ensure!(
        after < lease + TOLERANCE && after + TOLERANCE > lease,
        "{after:?}"
    );
    ensure!(stream.habits().renewals.lock().is_empty(), "it was renewed");
    Ok(())
}

pub(super) async fn a_renewal_by_the_user(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    stream.habits().renews.store(false, Ordering::Relaxed);
    let command = json!({ "do": "acquire", "name": "a", "guard": "g", "lease_ms": 1500 });
    let granted_at = Instant::now();
    let (id, op_id, request) = stage.acquiring(&mut stream, command).await?;
    stream.grant(op_id, &request, TOKEN);
    stage.driver.ok(id).await?;
    sleep_until(granted_at + Duration::from_millis(800)).await;
    let renew = json!({ "do": "renew", "guard": "g", "lease_ms": 2500 });
    let id = stage.driver.send(renew).await?;
    stream.next("renew").await?;
    let (op_id, request) = stream.last_renewal();
    ensure!(
        request.lease == proto(Duration::from_millis(2500)),
        "{request:?}"
    );
    renewed(&stream, op_id, &request, false);
    stage.driver.ok(id).await?;
    let valid = valid_for(stage, "g").await?;
    ensure!(valid > Duration::from_millis(1800), "{valid:?}");
    Ok(())
}

/// A guard is not valid for longer because its owner acquired the lock again, and had to wait.
pub(super) async fn a_late_grant_of_a_shared_lock_prolongs_nothing(
    stage: &mut Stage,
) -> Result<()> {
    let mut stream = stage.connect().await?;
    stream.habits().renews.store(false, Ordering::Relaxed);
    let command = |guard| json!({ "do": "acquire", "name": "a", "guard": guard, "owner": "me" });
    let (id, op_id, request) = stage.acquiring(&mut stream, command("g")).await?;
    stream.grant(op_id, &request, TOKEN);
    stage.driver.ok(id).await?;
    let (_, op_id, request) = stage.acquiring(&mut stream, command("h")).await?;
    let received_at = Instant::now();
    sleep(LEASE / 2).await;
    stream.grant(op_id, &request, TOKEN);
    // What is granted next is seen next.
    let next = json!({ "do": "acquire", "name": "b", "guard": "i" });
    let id = stage.driver.send(next).await?;
    loop {
        let frame = stream.next("acquire").await?;
        if let Request::Acquire(request) = frame.request {
            stream.grant(frame.op_id, &request, TOKEN + 1);
            break;
        }
    }
    stage.driver.ok(id).await?;
    let most = LEASE.saturating_sub(received_at.elapsed());
    let valid = valid_for(stage, "g").await?;
    ensure!(valid <= most + ROUNDING, "{valid:?} of {most:?}");
    Ok(())
}
