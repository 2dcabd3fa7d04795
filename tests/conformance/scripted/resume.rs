//! Broken streams.

use std::{mem, sync::atomic::Ordering, time::Duration};

use anyhow::{Result, bail, ensure};
use lockkeeper_api::pb::{self, LostReason, session_response::Response};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

use crate::{
    messages::{LEASE, PING_INTERVAL, TOKEN, TOLERANCE},
    stage::Stage,
    stream::Stream,
};

fn expect_one(named: &[pb::Grant]) -> Result<()> {
    ensure!(named.len() == 1, "one named grant expected: {named:?}");
    Ok(())
}

pub(super) async fn what_is_held_is_named(stage: &mut Stage) -> Result<()> {
    let (stream, grant) = stage.holding("a", "g").await?;
    stream.break_off();
    let (mut stream, resume) = stage.resumed(1).await?;
    expect_one(&resume.grants)?;
    let named = &resume.grants[0];
    ensure!(named.name == "a" && named.owner == grant.owner, "{named:?}");
    ensure!(named.fencing_token == TOKEN && named.watched, "{named:?}");
    stage.lock(&mut stream, "b", "h").await?;
    ensure!(stage.driver.losses("g") == 0, "it was lost");
    Ok(())
}

pub(super) async fn validity_counts_from_the_resume(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let sent_at = Instant::now();
    let grant = stage.lock(&mut stream, "a", "g").await?;
    stream.break_off();
    let (next, _) = stage.resuming(1).await?;
    let came_at = Instant::now();
    sleep(Duration::from_millis(300)).await;
    next.habits().renews.store(false, Ordering::Relaxed);
    next.opened_with(vec![grant]);
    let lost = stage.driver.lost("g").await?;
    ensure!(
        lost.at <= came_at + LEASE + TOLERANCE,
        "{:?}",
        lost.at - came_at
    );
    ensure!(
        lost.at + TOLERANCE > sent_at + LEASE,
        "{:?}",
        lost.at - sent_at
    );
    Ok(())
}

pub(super) async fn what_is_not_confirmed_is_lost(stage: &mut Stage) -> Result<()> {
    let (stream, grant) = stage.holding("a", "g").await?;
    stream.break_off();
    let (next, _) = stage.resuming(1).await?;
    next.opened();
    next.lost(&grant, LostReason::TakenOver, "");
    let lost = stage.driver.lost("g").await?;
    ensure!(lost.event["reason"] == "TAKEN_OVER", "{}", lost.event);
    Ok(())
}

pub(super) async fn an_acquire_is_sent_again(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g", "wait_ms": 10000 });
    let (id, _, first) = stage.acquiring(&mut stream, command).await?;
    sleep(Duration::from_millis(500)).await;
    stream.break_off();
    let (mut next, resume) = stage.resuming(1).await?;
    // The first coordinator may have granted it.
    expect_one(&resume.grants)?;
    let named = &resume.grants[0];
    ensure!(named.name == "a" && named.owner == first.owner, "{named:?}");
    ensure!(named.hold_count == 1 && named.watched, "{named:?}");
    next.opened();
    let (op_id, again) = next.expect_acquire().await?;
    ensure!(again.request_id == first.request_id, "a new request id");
    ensure!(again.owner == first.owner, "another owner");
    let wait = again
        .wait_timeout
        .and_then(|it| Duration::try_from(it).ok());
    let wait = wait.unwrap_or_default();
    ensure!(
        wait <= Duration::from_millis(9550),
        "the wait began anew: {wait:?}"
    );
    next.grant(op_id, &again, TOKEN);
    stage.driver.ok(id).await?;
    Ok(())
}

pub(super) async fn an_acquire_that_was_released_since_gets_a_new_id(
    stage: &mut Stage,
) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let (id, _, first) = stage.acquiring(&mut stream, command).await?;
    stream.break_off();
    let (mut next, _) = stage.resuming(1).await?;
    next.opened();
    let (op_id, again) = next.expect_acquire().await?;
    ensure!(again.request_id == first.request_id, "a new request id");
    next.fail(op_id, Code::FailedPrecondition, "NOT_OWNER");
    let (op_id, anew) = next.expect_acquire().await?;
    ensure!(anew.request_id != first.request_id, "the same request id");
    next.grant(op_id, &anew, TOKEN);
    stage.driver.ok(id).await?;
    Ok(())
}

pub(super) async fn a_release_is_sent_again(stage: &mut Stage) -> Result<()> {
    let (mut stream, _) = stage.holding("a", "g").await?;
    let release = json!({ "do": "release", "guard": "g" });
    let id = stage.driver.send(release).await?;
    let (_, first) = stream.expect_release().await?;
    stream.break_off();
    let (mut next, _) = stage.resuming(1).await?;
    next.opened();
    let (op_id, again) = next.expect_release().await?;
    ensure!(again.request_id == first.request_id, "a new request id");
    next.released(op_id);
    stage.driver.ok(id).await?;
    ensure!(stage.driver.losses("g") == 0, "reported as lost");
    Ok(())
}

pub(super) async fn permits_are_acquired_anew(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire_permits", "name": "s", "permits": 1, "guard": "g" });
    let id = stage.driver.send(command).await?;
    let (_, first) = stream.expect_acquire_permits().await?;
    stream.break_off();
    let (mut next, resume) = stage.resuming(1).await?;
    ensure!(resume.permits.is_empty(), "{:?}", resume.permits);
    next.opened();
    let (op_id, again) = next.expect_acquire_permits().await?;
    ensure!(again.request_id != first.request_id, "the same request id");
    next.grant_permits(op_id, &again);
    stage.driver.ok(id).await?;
    Ok(())
}

pub(super) async fn a_half_held_set_of_locks_is_released(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire_all", "names": ["a", "b"], "guard": "g" });
    let id = stage.driver.send(command).await?;
    let (_, first) = stream.expect_acquire_all().await?;
    stream.break_off();
    let (mut next, resume) = stage.resuming(1).await?;
    ensure!(resume.grants.len() == 2, "{:?}", resume.grants);
    let half = resume.grants.iter().filter(|it| it.name == "a").cloned();
    next.opened_with(half.collect());
    // In either order: both carry ids of their own.
    let (mut release, mut acquire) = (None, None);
    while release.is_none() || acquire.is_none() {
        let frame = next.next("a release and an acquire").await?;
        match frame.request {
            pb::session_request::Request::Release(it) => {
                next.released(frame.op_id);
                release = Some(it);
            }
            pb::session_request::Request::AcquireAll(it) => acquire = Some((frame.op_id, it)),
            other => anyhow::bail!("unexpected: {other:?}"),
        }
    }
    ensure!(release.is_some_and(|it| it.name == "a"), "another lock");
    if let Some((op_id, again)) = acquire {
        ensure!(again.request_id != first.request_id, "the same request id");
        next.grant_all(op_id, &again);
    }
    stage.driver.ok(id).await?;
    Ok(())
}

pub(super) async fn the_next_endpoint_may_know_the_session(stage: &mut Stage) -> Result<()> {
    let (stream, _) = stage.holding("a", "g").await?;
    stream.break_off();
    let (second, _) = stage.resuming(1).await?;
    second.refuse(Code::NotFound, "SESSION_NOT_FOUND");
    let (mut first, resume) = stage.resumed(0).await?;
    expect_one(&resume.grants)?;
    stage.lock(&mut first, "b", "h").await?;
    ensure!(stage.driver.losses("g") == 0, "it was lost");
    Ok(())
}

pub(super) async fn a_session_that_nobody_knows_has_ended(stage: &mut Stage) -> Result<()> {
    let (mut stream, _) = stage.holding("a", "g").await?;
    let command = json!({ "do": "acquire", "name": "b", "guard": "h" });
    let waiting = stage.driver.send(command).await?;
    stream.expect_acquire().await?;
    stream.break_off();
    for coordinator in [1, 0] {
        let (next, _) = stage.resuming(coordinator).await?;
        next.refuse(Code::NotFound, "SESSION_NOT_FOUND");
    }
    let lost = stage.driver.lost("g").await?;
    ensure!(lost.event["reason"] == "UNSPECIFIED", "{}", lost.event);
    stage.driver.fails(waiting, "session_ended").await?;
    stage.driver.state("ended").await?;
    Ok(())
}

pub(super) async fn missing_credentials_may_come_back(stage: &mut Stage) -> Result<()> {
    let (stream, _) = stage.holding("a", "g").await?;
    stream.break_off();
    for coordinator in [1, 0] {
        let (next, _) = stage.resuming(coordinator).await?;
        next.refuse(Code::Unauthenticated, "UNAUTHENTICATED");
    }
    stage.resumed(1).await?;
    ensure!(stage.driver.losses("g") == 0, "it was lost");
    Ok(())
}

pub(super) async fn nobody_for_a_whole_lease_ends_the_session(stage: &mut Stage) -> Result<()> {
    let (stream, _) = stage.holding("a", "g").await?;
    let broken_at = Instant::now();
    stream.break_off();
    let refused = async {
        loop {
            for coordinator in [0, 1] {
                let accepted = stage.coordinators[coordinator].try_accept();
                if let Some(next) = accepted {
                    next.refuse(Code::Unavailable, "DRAINING");
                }
            }
            sleep(Duration::from_millis(5)).await;
            if stage.driver.losses("g") == 1 {
                return;
            }
        }
    };
    let ended = timeout(LEASE + Duration::from_secs(2), refused).await;
    ensure!(ended.is_ok(), "it was never reported as lost");
    let after = broken_at.elapsed();
    ensure!(after < LEASE + TOLERANCE * 2, "{after:?}");
    stage.driver.state("ended").await?;
    Ok(())
}

/// Attempts in step with each other would all arrive at once: the pauses between them differ.
pub(super) async fn attempts_are_spread(stage: &mut Stage) -> Result<()> {
    // By chance a few pauses are nearly whole, and a busy machine lengthens all of them.
    const ROUNDS_MIN: u32 = 6;
    const ROUNDS_MAX: u32 = 15;
    let stream = stage.connect_with(Duration::from_secs(60)).await?;
    stream.break_off();
    let (_, mut refused_at) = refuse_round(stage).await?;
    let (mut pauses, mut is_spread) = (Vec::new(), false);
    for round in 1..=ROUNDS_MAX {
        let (came_at, refused) = refuse_round(stage).await?;
        let pause = came_at - mem::replace(&mut refused_at, refused);
        let whole = (Duration::from_millis(25) * 2_u32.pow(round)).min(Duration::from_secs(1));
        ensure!(pause >= whole / 2, "{pause:?} instead of {whole:?}");
        is_spread |= pause < whole * 19 / 20;
        if is_spread && round >= ROUNDS_MIN {
            return Ok(());
        }
        pauses.push(pause);
    }
    bail!("no jitter: {pauses:?}")
}

/// As if one of its operations ended each stream: a stream alone is no progress.
pub(super) async fn pauses_grow_while_streams_carry_nothing(stage: &mut Stage) -> Result<()> {
    const ROUNDS: u32 = 5;
    let mut stream = stage.connect().await?;
    for round in 0..=ROUNDS {
        let pause;
        (stream, pause) = broken_off(stage, stream, usize::from(round % 2 == 0)).await?;
        // The first pause is at most 50 ms, and the next ones are as after failed attempts.
        let whole = (Duration::from_millis(25) * 2_u32.pow(round)).min(LEASE / 6);
        let least = if round == 0 {
            Duration::ZERO
        } else {
            whole / 2
        };
        ensure!(
            pause >= least,
            "{pause:?} instead of {whole:?} in round {round}"
        );
    }
    stage.lock(&mut stream, "a", "g").await?;
    let (_, pause) = broken_off(stage, stream, 1).await?;
    ensure!(pause < LEASE / 12, "{pause:?} after an answer");
    Ok(())
}

/// Ends a stream, and returns the next one, open, and how long it took to come.
async fn broken_off(
    stage: &mut Stage,
    stream: Stream,
    coordinator: usize,
) -> Result<(Stream, Duration)> {
    let broken_at = Instant::now();
    stream.break_off();
    let (next, _) = stage.resumed(coordinator).await?;
    let pause = next.accepted_at - broken_at;
    Ok((next, pause))
}

/// Refuses an attempt at each of the coordinators. Returns when the first one came, and when the
/// second one was refused.
async fn refuse_round(stage: &mut Stage) -> Result<(Instant, Instant)> {
    let mut first = stage.accept(1).await?;
    let came_at = first.accepted_at;
    first.expect_resume().await?;
    first.refuse(Code::Unavailable, "DRAINING");
    let (second, _) = stage.resuming(0).await?;
    let refused_at = Instant::now();
    second.refuse(Code::Unavailable, "DRAINING");
    Ok((came_at, refused_at))
}

/// A connection that is alive but carries nothing.
pub(super) async fn a_silent_stream_is_left(stage: &mut Stage) -> Result<()> {
    let (stream, _) = stage.holding("a", "g").await?;
    stream.habits().renews.store(false, Ordering::Relaxed);
    stream
        .habits()
        .answers_pings
        .store(false, Ordering::Relaxed);
    let silent_from = Instant::now();
    stage.resumed(1).await?;
    let after = silent_from.elapsed();
    ensure!(after < PING_INTERVAL * 2 + TOLERANCE * 2, "{after:?}");
    ensure!(stage.driver.losses("g") == 0, "it was lost");
    Ok(())
}

pub(super) async fn silence_is_broken_by_pings(stage: &mut Stage) -> Result<()> {
    let stream = stage.connect().await?;
    sleep(PING_INTERVAL * 4 + TOLERANCE).await;
    let pings = stream.habits().pings.lock().len();
    // An idle session sends what the coordinator asked for, and not more.
    ensure!((3..=4).contains(&pings), "{pings} pings");
    ensure!(!stage.has_come(1), "the stream was left");
    Ok(())
}

pub(super) async fn a_coordinator_that_goes_away_is_left(stage: &mut Stage) -> Result<()> {
    let (stream, _) = stage.holding("a", "g").await?;
    let begun = Instant::now();
    stream.send(0, Response::GoingAway(pb::SessionGoingAway {}));
    let (_, resume) = stage.resumed(1).await?;
    expect_one(&resume.grants)?;
    let after = begun.elapsed();
    ensure!(after < Duration::from_millis(500) + TOLERANCE, "{after:?}");
    ensure!(stage.driver.losses("g") == 0, "it was lost");
    Ok(())
}

pub(super) async fn the_last_answers_of_one_that_goes_away_count(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let (id, op_id, request) = stage.acquiring(&mut stream, command).await?;
    stream.send(0, Response::GoingAway(pb::SessionGoingAway {}));
    stream.grant(op_id, &request, TOKEN);
    stage.driver.ok(id).await?;
    stream.break_off();
    let (_, resume) = stage.resumed(1).await?;
    expect_one(&resume.grants)?;
    Ok(())
}

pub(super) async fn what_is_asked_meanwhile_is_sent_later(stage: &mut Stage) -> Result<()> {
    let stream = stage.connect().await?;
    stream.break_off();
    let (mut next, _) = stage.resuming(1).await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g" });
    let id = stage.driver.send(command).await?;
    next.quiet_until(Instant::now() + Duration::from_millis(100))
        .await?;
    next.opened();
    let (op_id, request) = next.expect_acquire().await?;
    next.grant(op_id, &request, TOKEN);
    stage.driver.ok(id).await?;
    Ok(())
}

/// A coordinator that accepts and does not answer may hide one that would.
pub(super) async fn a_slow_resume_is_left(stage: &mut Stage) -> Result<()> {
    let (stream, _) = stage.holding("a", "g").await?;
    stream.break_off();
    let begun = Instant::now();
    let (_slow, _) = stage.resuming(1).await?;
    stage.resumed(0).await?;
    let after = begun.elapsed();
    ensure!(after < LEASE / 6 + TOLERANCE * 2, "{after:?}");
    ensure!(stage.driver.losses("g") == 0, "it was lost");
    Ok(())
}

pub(super) async fn no_session_is_opened_silently(stage: &mut Stage) -> Result<()> {
    let (stream, _) = stage.holding("a", "g").await?;
    stream.break_off();
    for coordinator in [1, 0] {
        let (next, _) = stage.resuming(coordinator).await?;
        next.refuse(Code::NotFound, "SESSION_NOT_FOUND");
    }
    stage.driver.lost("g").await?;
    stage.driver.state("ended").await?;
    sleep(Duration::from_secs(1)).await;
    let came = stage.has_come(0) || stage.has_come(1);
    ensure!(!came, "a session was opened that nobody asked for");
    Ok(())
}

/// A lock that a guard holds already does not tell whether its owner's acquire of several locks,
/// which waits for another of them, was granted.
pub(super) async fn a_lock_of_another_guard_is_not_released(stage: &mut Stage) -> Result<()> {
    let mut stream = stage.connect().await?;
    let command = json!({ "do": "acquire", "name": "a", "guard": "g", "owner": "me" });
    let (id, op_id, request) = stage.acquiring(&mut stream, command).await?;
    stream.grant(op_id, &request, TOKEN);
    stage.driver.ok(id).await?;
    let command = json!({ "do": "acquire_all", "names": ["a", "b"], "guard": "h", "owner": "me" });
    let id = stage.driver.send(command).await?;
    let (_, first) = stream.expect_acquire_all().await?;
    stream.break_off();
    let (mut next, resume) = stage.resuming(1).await?;
    let held = resume.grants.iter().filter(|it| it.name == "a").cloned();
    next.opened_with(held.collect());
    let (op_id, again) = next.expect_acquire_all().await?;
    ensure!(again.request_id == first.request_id, "a new request id");
    next.grant_all(op_id, &again);
    stage.driver.ok(id).await?;
    Ok(())
}
