//! What each kind does when nothing fails.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::scene::{LEASE, Scene, acquire, connect_to, expect_held, is_free, release, try_acquire};
use crate::messages::TOLERANCE;

pub(super) async fn one_holder_at_a_time(scene: &mut Scene) -> Result<()> {
    scene.first.run(acquire("a", "g")).await?;
    ensure!(!is_free(&mut scene.second, "a").await?, "two hold it");
    scene.first.run(release("g")).await?;
    ensure!(is_free(&mut scene.second, "a").await?, "nobody gets it");
    Ok(())
}

pub(super) async fn a_waiter_gets_a_released_lock(scene: &mut Scene) -> Result<()> {
    scene.second.run(acquire("a", "g")).await?;
    let waiting = scene.first.send(acquire("a", "h")).await?;
    sleep(TOLERANCE).await;
    ensure!(!scene.first.is_answered(waiting), "two hold it");
    scene.second.run(release("g")).await?;
    scene.first.ok(waiting).await?;
    Ok(())
}

pub(super) async fn fair_waiters_in_order(scene: &mut Scene) -> Result<()> {
    let fair =
        |guard: &str| json!({ "do": "acquire", "name": "a", "guard": guard, "mode": "fair" });
    scene.second.run(fair("held")).await?;
    let mut waiting = Vec::new();
    for (number, guard) in (1..).zip(["g1", "g2", "g3"]) {
        waiting.push((guard, scene.first.send(fair(guard)).await?));
        scene.until_waiting("a", number).await?;
    }
    scene.second.run(release("held")).await?;
    for number in 0..waiting.len() {
        let (guard, id) = waiting[number];
        scene.first.ok(id).await?;
        let later = &waiting[number + 1..];
        let overtaken = later.iter().any(|(_, id)| scene.first.is_answered(*id));
        ensure!(!overtaken, "a later one was granted with {guard}");
        scene.first.run(release(guard)).await?;
    }
    Ok(())
}

pub(super) async fn readers_share_and_a_writer_waits(scene: &mut Scene) -> Result<()> {
    let of_mode = |guard: &str, mode: &str| {
        let mut command = acquire("a", guard);
        command["mode"] = json!(mode);
        command
    };
    scene.first.run(of_mode("r1", "read")).await?;
    scene.second.run(of_mode("r2", "read")).await?;
    let writer = scene.first.send(of_mode("w", "write")).await?;
    scene.first.run(release("r1")).await?;
    ensure!(!scene.first.is_answered(writer), "a writer beside a reader");
    scene.second.run(release("r2")).await?;
    scene.first.ok(writer).await?;
    Ok(())
}

pub(super) async fn an_owner_acquires_twice(scene: &mut Scene) -> Result<()> {
    for guard in ["g", "h"] {
        let mine = json!({ "do": "acquire", "name": "a", "guard": guard, "owner": "me" });
        scene.first.run(mine).await?;
    }
    scene.first.run(release("g")).await?;
    expect_held(&mut scene.first, "h").await?;
    ensure!(!is_free(&mut scene.second, "a").await?, "free too early");
    scene.first.run(release("h")).await?;
    ensure!(is_free(&mut scene.second, "a").await?, "still held");
    Ok(())
}

pub(super) async fn two_tasks_exclude_each_other(scene: &mut Scene) -> Result<()> {
    scene.first.run(acquire("a", "g")).await?;
    let id = scene.first.send(try_acquire("a", "h")).await?;
    scene.first.fails(id, "not_granted").await?;
    Ok(())
}

pub(super) async fn several_locks_all_or_none(scene: &mut Scene) -> Result<()> {
    scene.second.run(acquire("{k}b", "g")).await?;
    let names = ["{k}a", "{k}b"];
    let all = json!({ "do": "try_acquire_all", "names": names, "guard": "all" });
    let id = scene.first.send(all.clone()).await?;
    scene.first.fails(id, "not_granted").await?;
    ensure!(is_free(&mut scene.second, "{k}a").await?, "one was taken");
    scene.second.run(release("g")).await?;
    let granted = scene.first.run(all).await?;
    let tokens = granted["fencing_tokens"]
        .as_object()
        .map(serde_json::Map::len);
    ensure!(tokens == Some(2), "{granted}");
    scene.first.run(release("all")).await?;
    ensure!(is_free(&mut scene.second, "{k}b").await?, "still held");
    Ok(())
}

fn permits(guard: &str, permits: u32) -> serde_json::Value {
    json!({ "do": "try_acquire_permits", "name": "s", "permits": permits, "guard": guard })
}

pub(super) async fn permits_run_out(scene: &mut Scene) -> Result<()> {
    let set = json!({ "do": "set_permits", "name": "s", "permits": 3 });
    scene.first.run(set).await?;
    scene.first.run(permits("g", 2)).await?;
    let id = scene.second.send(permits("h", 2)).await?;
    scene.second.fails(id, "not_granted").await?;
    let wait = json!({ "do": "acquire_permits", "name": "s", "permits": 2, "guard": "h" });
    let waiting = scene.second.send(wait).await?;
    scene.first.run(release("g")).await?;
    scene.second.ok(waiting).await?;
    Ok(())
}

pub(super) async fn a_semaphore_is_described(scene: &mut Scene) -> Result<()> {
    let set = json!({ "do": "set_permits", "name": "s", "permits": 3 });
    scene.first.run(set).await?;
    scene.first.run(permits("g", 2)).await?;
    let describe = json!({ "do": "describe_semaphore", "name": "s" });
    let seen = scene.second.run(describe).await?;
    ensure!(seen["permits"] == 3 && seen["available"] == 1, "{seen}");
    Ok(())
}

pub(super) async fn a_latch_opens_at_zero(scene: &mut Scene) -> Result<()> {
    let set = json!({ "do": "set_count", "name": "l", "count": 2 });
    scene.first.run(set).await?;
    let wait = json!({ "do": "await_latch", "name": "l" });
    let waiting = scene.second.send(wait).await?;
    let down = json!({ "do": "count_down", "name": "l", "by": 1 });
    ensure!(scene.first.run(down.clone()).await?["count"] == 1);
    ensure!(!scene.second.is_answered(waiting), "open at 1");
    scene.first.run(down).await?;
    scene.second.ok(waiting).await?;
    Ok(())
}

pub(super) async fn a_deleted_latch_opens(scene: &mut Scene) -> Result<()> {
    let set = json!({ "do": "set_count", "name": "l", "count": 2 });
    scene.first.run(set).await?;
    let wait = json!({ "do": "await_latch", "name": "l" });
    let waiting = scene.second.send(wait).await?;
    let delete = json!({ "do": "delete_latch", "name": "l" });
    scene.first.run(delete).await?;
    scene.second.ok(waiting).await?;
    Ok(())
}

pub(super) async fn tokens_grow_and_are_checked(scene: &mut Scene) -> Result<()> {
    let mut tokens = Vec::new();
    for number in 0..4 {
        let driver = match number % 2 {
            0 => &mut scene.first,
            _ => &mut scene.second,
        };
        let granted = driver.run(acquire("a", "g")).await?;
        driver.run(release("g")).await?;
        let token = granted["fencing_token"].as_str().unwrap_or_default();
        tokens.push(token.parse::<u64>()?);
    }
    ensure!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    for (token, current) in [(tokens[3], true), (tokens[2], false)] {
        let token = token.to_string();
        let check = json!({ "do": "check_token", "name": "a", "fencing_token": token });
        let checked = scene.second.run(check).await?;
        ensure!(checked["current"] == current, "{checked}");
    }
    Ok(())
}

pub(super) async fn a_lease_of_the_request_ends(scene: &mut Scene) -> Result<()> {
    let short = json!({ "do": "acquire", "name": "a", "guard": "g", "lease_ms": 800 });
    scene.first.run(short).await?;
    let begun = Instant::now();
    scene.second.run(acquire("a", "h")).await?;
    let after = begun.elapsed();
    ensure!(
        after < LEASE / 2 && after > Duration::from_millis(500),
        "{after:?}"
    );
    let lost = scene.first.lost("g").await?;
    ensure!(lost.event["reason"] == "EXPIRED", "{}", lost.event);
    Ok(())
}

pub(super) async fn a_wait_ends_in_time(scene: &mut Scene) -> Result<()> {
    scene.second.run(acquire("a", "g")).await?;
    let begun = Instant::now();
    let wait = json!({ "do": "acquire", "name": "a", "guard": "h", "wait_ms": 500 });
    let id = scene.first.send(wait).await?;
    let failure = scene.first.fails(id, "not_granted").await?;
    ensure!(failure.reason == "WAIT_TIMEOUT", "{failure:?}");
    let after = begun.elapsed();
    ensure!(
        after < Duration::from_millis(500) + TOLERANCE * 2,
        "{after:?}"
    );
    Ok(())
}

pub(super) async fn a_cancelled_wait_leaves_no_trace(scene: &mut Scene) -> Result<()> {
    scene.second.run(acquire("a", "g")).await?;
    let cancelled = scene.first.send(acquire("a", "h")).await?;
    let other = scene.first.send(acquire("a", "i")).await?;
    sleep(TOLERANCE).await;
    let cancel = json!({ "do": "cancel", "target": cancelled });
    scene.first.run(cancel).await?;
    scene.first.fails(cancelled, "cancelled").await?;
    scene.second.run(release("g")).await?;
    scene.first.ok(other).await?;
    scene.first.run(release("i")).await?;
    ensure!(is_free(&mut scene.second, "a").await?, "still held");
    Ok(())
}

pub(super) async fn a_session_renews_what_it_holds(scene: &mut Scene) -> Result<()> {
    scene.first.run(acquire("a", "g")).await?;
    sleep(LEASE * 2).await;
    expect_held(&mut scene.first, "g").await?;
    ensure!(!is_free(&mut scene.second, "a").await?, "it was free");
    Ok(())
}

pub(super) async fn close_releases_everything(scene: &mut Scene) -> Result<()> {
    scene.first.run(acquire("a", "g")).await?;
    scene.first.run(json!({ "do": "close" })).await?;
    ensure!(is_free(&mut scene.second, "a").await?, "still held");
    Ok(())
}

pub(super) async fn a_killed_program_leaves_its_lease(scene: &mut Scene) -> Result<()> {
    scene.first.run(acquire("a", "g")).await?;
    let begun = Instant::now();
    scene.first.kill().await?;
    ensure!(!is_free(&mut scene.second, "a").await?, "free at once");
    scene.second.run(acquire("a", "h")).await?;
    let after = begun.elapsed();
    ensure!(after < LEASE + Duration::from_secs(1), "{after:?}");
    Ok(())
}

pub(super) async fn a_killed_program_that_releases_on_disconnect(scene: &mut Scene) -> Result<()> {
    let urls = scene.urls();
    let mut connect = connect_to(&urls);
    connect["release_on_disconnect"] = json!(true);
    scene.first.run(connect).await?;
    scene.second.run(connect_to(&urls[1..])).await?;
    scene.first.run(acquire("a", "g")).await?;
    let begun = Instant::now();
    scene.first.kill().await?;
    scene.second.run(acquire("a", "h")).await?;
    let after = begun.elapsed();
    ensure!(after < LEASE / 2, "{after:?}");
    Ok(())
}

pub(super) async fn a_forced_release_is_a_loss(scene: &mut Scene) -> Result<()> {
    // At the coordinator that is asked, so that it is noticed at once.
    scene.second.run(acquire("a", "g")).await?;
    scene.force_release("a", "maintenance")?;
    let lost = scene.second.lost("g").await?.event;
    ensure!(lost["reason"] == "FORCE_RELEASED", "{lost}");
    ensure!(
        lost["detail"]
            .as_str()
            .is_some_and(|it| it.contains("maintenance")),
        "{lost}"
    );
    Ok(())
}

pub(super) async fn calls_without_a_session(scene: &mut Scene) -> Result<()> {
    let once = |action: &str, owner: &str| {
        let name = "a";
        json!({ "do": action, "name": name, "owner": owner, "lease_ms": 10_000 })
    };
    let granted = scene.first.run(once("once_try_acquire", "me")).await?;
    ensure!(granted["acquired"] == true, "{granted}");
    ensure!(granted["fencing_token"].is_string(), "{granted}");
    let busy = scene.second.run(once("once_try_acquire", "you")).await?;
    ensure!(busy["acquired"] == false, "{busy}");
    scene.first.run(once("once_renew", "me")).await?;
    scene.first.run(once("once_release", "me")).await?;
    ensure!(is_free(&mut scene.second, "a").await?, "still held");
    Ok(())
}

pub(super) async fn a_bad_name_is_refused(scene: &mut Scene) -> Result<()> {
    let id = scene.first.send(acquire("", "g")).await?;
    let failure = scene.first.failure(id).await?;
    let is_told = match failure.kind.as_str() {
        "refused" => failure.reason == "INVALID_NAME",
        kind => kind == "misconfigured",
    };
    ensure!(is_told, "{failure:?}");
    scene.first.run(acquire("a", "g")).await?;
    Ok(())
}
