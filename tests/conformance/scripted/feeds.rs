//! Observers of elections, watches of locks, and waits until a lock is free.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_api::pb::{
    Holder, Leadership, LockEnded, LockFree, LockGap, LockGapReason, LockGranted, LockState,
    LockWaiters, NoLeader, NotGranted, NotGrantedReason, TermsMissed, Waiting,
    await_free_response::Event as Freed, observe_response::Event as Term,
    watch_lock_response::Event as Seen,
};
use serde_json::json;
use tokio::time::sleep;
use tonic::Code;

use crate::{
    feed::{Terms, Wait, Watch},
    messages::{TOKEN, TOLERANCE},
    stage::Stage,
};

fn leader(revision: u64, value: &str) -> Term {
    Term::Leader(Leadership {
        term: TOKEN,
        value: value.to_owned(),
        revision,
        ..Leadership::default()
    })
}

/// What a driver says of [`leader`].
fn told_leader(revision: u64, value: &str) -> String {
    format!("leader {revision} {value} {TOKEN}")
}

async fn observe(stage: &mut Stage) -> Result<(u64, Terms)> {
    let command = json!({ "do": "observe", "name": "e", "feed": "f" });
    let id = stage.driver.send(command).await?;
    let terms = stage.expect_observe().await?;
    ensure!(terms.request.name == "e", "{:?}", terms.request);
    ensure!(terms.request.after_revision == 0, "{:?}", terms.request);
    Ok((id, terms))
}

/// Fails unless exactly this was told, also a moment later.
async fn expect_told(stage: &mut Stage, expected: &[String]) -> Result<()> {
    stage.driver.told("f", expected.len()).await?;
    sleep(TOLERANCE).await;
    let told = stage.driver.all_told("f");
    ensure!(told == expected, "{expected:?} expected: {told:?}");
    Ok(())
}

pub(super) async fn an_observer_is_told_everything_in_order(stage: &mut Stage) -> Result<()> {
    let _stream = stage.connect().await?;
    let (_, terms) = observe(stage).await?;
    let mut expected = vec!["no_leader".to_owned()];
    terms.tell(Term::NoLeader(NoLeader {}));
    for revision in 1..=100 {
        terms.tell(leader(revision, "one"));
        expected.push(told_leader(revision, "one"));
    }
    terms.tell(Term::Missed(TermsMissed {}));
    terms.tell(leader(1 << 60, "two"));
    terms.tell(Term::NoLeader(NoLeader {}));
    expected.push("missed".to_owned());
    expected.push(told_leader(1 << 60, "two"));
    expected.push("no_leader".to_owned());
    expect_told(stage, &expected).await
}

pub(super) async fn an_observer_goes_on_after_what_it_has_seen(stage: &mut Stage) -> Result<()> {
    let _stream = stage.connect().await?;
    let (_, terms) = observe(stage).await?;
    let mut expected = Vec::new();
    terms.tell(leader(7, "one"));
    expected.push(told_leader(7, "one"));
    expect_told(stage, &expected).await?;
    terms.break_off();
    let terms = stage.expect_observe().await?;
    let after = terms.request.after_revision;
    ensure!(after == 7, "it goes on after {after}");
    terms.tell(leader(8, "two"));
    expected.push(told_leader(8, "two"));
    expect_told(stage, &expected).await
}

pub(super) async fn an_observer_that_saw_no_term_tells_a_gap(stage: &mut Stage) -> Result<()> {
    let _stream = stage.connect().await?;
    let (_, terms) = observe(stage).await?;
    terms.tell(Term::NoLeader(NoLeader {}));
    stage.driver.told("f", 1).await?;
    terms.break_off();
    let terms = stage.expect_observe().await?;
    terms.tell(leader(3, "one"));
    let expected = ["no_leader", "missed", &told_leader(3, "one")].map(str::to_owned);
    expect_told(stage, &expected).await
}

pub(super) async fn an_observer_that_is_refused_ends(stage: &mut Stage) -> Result<()> {
    let _stream = stage.connect().await?;
    let (id, terms) = observe(stage).await?;
    terms.tell(leader(1, "one"));
    stage.driver.told("f", 1).await?;
    terms.refuse(Code::PermissionDenied, "PERMISSION_DENIED");
    let failure = stage.driver.fails(id, "refused").await?;
    ensure!(failure.reason == "PERMISSION_DENIED", "{failure:?}");
    Ok(())
}

pub(super) async fn a_cancelled_observer_ends_its_call(stage: &mut Stage) -> Result<()> {
    let _stream = stage.connect().await?;
    let (id, terms) = observe(stage).await?;
    terms.tell(leader(1, "one"));
    stage.driver.told("f", 1).await?;
    let cancel = json!({ "do": "cancel", "target": id });
    stage.driver.run(cancel).await?;
    stage.driver.fails(id, "cancelled").await?;
    terms.expect_cancelled().await
}

pub(super) async fn a_watch_is_told_everything_in_order(stage: &mut Stage) -> Result<()> {
    let _stream = stage.connect().await?;
    let watch = json!({ "do": "watch_lock", "name": "a", "feed": "f" });
    stage.driver.send(watch).await?;
    let watch = stage.expect_watch().await?;
    ensure!(watch.request.name == "a", "{:?}", watch.request);
    let (holder, fencing_token) = (Some(Holder::default()), TOKEN);
    watch.tell(Seen::State(LockState::default()));
    watch.tell(Seen::Granted(LockGranted {
        holder: holder.clone(),
        fencing_token,
    }));
    watch.tell(Seen::Waiters(LockWaiters { waiter_count: 2 }));
    watch.tell(Seen::Ended(LockEnded {
        holder,
        fencing_token,
        ..LockEnded::default()
    }));
    watch.tell(Seen::Free(LockFree::default()));
    let reason = LockGapReason::Folded.into();
    watch.tell(Seen::Gap(LockGap { reason }));
    let expected = [
        "state",
        &format!("granted {TOKEN}"),
        "waiters",
        &format!("ended {TOKEN}"),
        "free",
        "gap",
    ];
    expect_told(stage, &expected.map(str::to_owned)).await
}

pub(super) async fn a_watch_that_goes_on_tells_a_gap(stage: &mut Stage) -> Result<()> {
    watch_goes_on(stage, Watch::break_off).await
}

/// A call goes on until its caller ends it, so its peer ends it before its time with OK, too.
pub(super) async fn a_watch_that_its_peer_ends_goes_on(stage: &mut Stage) -> Result<()> {
    watch_goes_on(stage, Watch::finish).await
}

async fn watch_goes_on(stage: &mut Stage, end: fn(Watch)) -> Result<()> {
    let _stream = stage.connect().await?;
    let watch = json!({ "do": "watch_lock", "name": "a", "feed": "f" });
    stage.driver.send(watch).await?;
    let watch = stage.expect_watch().await?;
    watch.tell(Seen::State(LockState::default()));
    stage.driver.told("f", 1).await?;
    end(watch);
    let watch = stage.expect_watch().await?;
    watch.tell(Seen::State(LockState::default()));
    expect_told(stage, &["state", "gap", "state"].map(str::to_owned)).await
}

pub(super) async fn an_observer_whose_peer_ends_goes_on(stage: &mut Stage) -> Result<()> {
    let _stream = stage.connect().await?;
    let (_, terms) = observe(stage).await?;
    terms.tell(leader(7, "one"));
    stage.driver.told("f", 1).await?;
    terms.finish();
    let terms = stage.expect_observe().await?;
    let after = terms.request.after_revision;
    ensure!(after == 7, "it goes on after {after}");
    terms.tell(leader(8, "two"));
    expect_told(stage, &[told_leader(7, "one"), told_leader(8, "two")]).await
}

pub(super) async fn a_wait_that_its_peer_ends_goes_on(stage: &mut Stage) -> Result<()> {
    let _stream = stage.connect().await?;
    let (id, call) = await_free(stage, None).await?;
    call.tell(Freed::Waiting(Waiting::default()));
    call.finish();
    let call = stage.expect_await_free().await?;
    ensure!(!stage.driver.is_answered(id), "it is not free yet");
    call.tell(Freed::Free(LockFree::default()));
    stage.driver.ok(id).await?;
    Ok(())
}

async fn await_free(stage: &mut Stage, wait: Option<Duration>) -> Result<(u64, Wait)> {
    let wait = wait.map(|wait| wait.as_millis());
    let command = json!({ "do": "await_free", "name": "a", "wait_ms": wait });
    let id = stage.driver.send(command).await?;
    let call = stage.expect_await_free().await?;
    ensure!(call.request.name == "a", "{:?}", call.request);
    Ok((id, call))
}

fn limit_of(call: &Wait) -> Result<Duration> {
    let limit = call.request.wait_timeout.context("no limit")?;
    Ok(limit.try_into()?)
}

pub(super) async fn a_wait_ends_when_the_lock_is_free(stage: &mut Stage) -> Result<()> {
    let _stream = stage.connect().await?;
    let (id, call) = await_free(stage, None).await?;
    ensure!(call.request.wait_timeout.is_none(), "{:?}", call.request);
    call.tell(Freed::Waiting(Waiting::default()));
    call.tell(Freed::Waiting(Waiting::default()));
    sleep(TOLERANCE).await;
    ensure!(!stage.driver.is_answered(id), "it is not free yet");
    call.tell(Freed::Free(LockFree::default()));
    stage.driver.ok(id).await?;
    Ok(())
}

pub(super) async fn a_wait_goes_on_with_what_is_left(stage: &mut Stage) -> Result<()> {
    let _stream = stage.connect().await?;
    let wait = Duration::from_secs(60);
    let (id, call) = await_free(stage, Some(wait)).await?;
    let first = limit_of(&call)?;
    ensure!(first <= wait && first + TOLERANCE > wait, "{first:?}");
    call.tell(Freed::Waiting(Waiting::default()));
    sleep(TOLERANCE).await;
    call.break_off();
    let call = stage.expect_await_free().await?;
    let left = limit_of(&call)?;
    ensure!(left + TOLERANCE <= first, "{left:?} is left of {first:?}");
    call.tell(Freed::Free(LockFree::default()));
    stage.driver.ok(id).await?;
    Ok(())
}

pub(super) async fn a_wait_that_is_over_says_so(stage: &mut Stage) -> Result<()> {
    let _stream = stage.connect().await?;
    let (id, call) = await_free(stage, Some(TOLERANCE)).await?;
    call.tell(Freed::Waiting(Waiting::default()));
    let reason = NotGrantedReason::WaitTimeout.into();
    call.tell(Freed::NotFree(NotGranted {
        reason,
        ..NotGranted::default()
    }));
    let failure = stage.driver.fails(id, "not_granted").await?;
    ensure!(failure.reason == "WAIT_TIMEOUT", "{failure:?}");
    Ok(())
}

pub(super) async fn a_cancelled_wait_ends_its_call(stage: &mut Stage) -> Result<()> {
    let _stream = stage.connect().await?;
    let (id, call) = await_free(stage, None).await?;
    call.tell(Freed::Waiting(Waiting::default()));
    let cancel = json!({ "do": "cancel", "target": id });
    stage.driver.run(cancel).await?;
    stage.driver.fails(id, "cancelled").await?;
    call.expect_cancelled().await
}
