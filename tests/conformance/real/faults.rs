//! What each client does when something fails.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper_testkit::{coordinator::Coordinator, tcp_proxy::TcpProxy};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::scene::{LEASE, Scene, acquire, connect_to, expect_held, is_free, release};

/// Kills the first coordinator under a guard, and expects that its user does not notice.
async fn survives(scene: &mut Scene, acquire: Value) -> Result<()> {
    scene.first.run(acquire).await?;
    scene.coordinators[0].kill();
    sleep(LEASE + Duration::from_secs(1)).await;
    expect_held(&mut scene.first, "g").await?;
    scene.first.run(release("g")).await?;
    Ok(())
}

pub(super) async fn a_killed_coordinator_costs_nothing(scene: &mut Scene) -> Result<()> {
    survives(scene, acquire("a", "g")).await?;
    ensure!(is_free(&mut scene.second, "a").await?, "still held");
    Ok(())
}

pub(super) async fn permits_survive_a_coordinator(scene: &mut Scene) -> Result<()> {
    let set = json!({ "do": "set_permits", "name": "s", "permits": 2 });
    scene.second.run(set).await?;
    let permits = json!({ "do": "acquire_permits", "name": "s", "permits": 2, "guard": "g" });
    survives(scene, permits).await
}

pub(super) async fn several_locks_survive_a_coordinator(scene: &mut Scene) -> Result<()> {
    let all = json!({ "do": "acquire_all", "names": ["{k}a", "{k}b"], "guard": "g" });
    survives(scene, all).await
}

pub(super) async fn a_read_lock_survives_a_coordinator(scene: &mut Scene) -> Result<()> {
    let read = json!({ "do": "acquire", "name": "a", "guard": "g", "mode": "read" });
    survives(scene, read).await
}

pub(super) async fn a_restarted_coordinator_costs_nothing(scene: &mut Scene) -> Result<()> {
    let url = scene.urls()[0].clone();
    scene.first.run(connect_to(&[url])).await?;
    scene.first.run(acquire("a", "g")).await?;
    scene.coordinators[0].kill();
    scene.coordinators[0].restart_on_same_address().await;
    sleep(LEASE).await;
    expect_held(&mut scene.first, "g").await?;
    scene.first.run(release("g")).await?;
    Ok(())
}

pub(super) async fn a_frozen_coordinator_costs_nothing(scene: &mut Scene) -> Result<()> {
    scene.first.run(acquire("a", "g")).await?;
    scene.coordinators[0].stop();
    sleep(LEASE + Duration::from_secs(1)).await;
    expect_held(&mut scene.first, "g").await?;
    scene.coordinators[0].cont();
    ensure!(!is_free(&mut scene.second, "a").await?, "it was free");
    scene.first.run(release("g")).await?;
    Ok(())
}

pub(super) async fn a_drained_coordinator_costs_nothing(scene: &mut Scene) -> Result<()> {
    scene.first.run(acquire("a", "g")).await?;
    scene.coordinators[0].signal(Signal::SIGTERM);
    scene.first.state("resuming").await?;
    sleep(LEASE).await;
    expect_held(&mut scene.first, "g").await?;
    scene.first.run(release("g")).await?;
    Ok(())
}

/// Nothing gets through any more, and nobody says so.
pub(super) async fn a_cut_connection_costs_nothing(scene: &mut Scene) -> Result<()> {
    let proxy = TcpProxy::to(scene.coordinators[0].address().port()).await;
    let urls = [
        format!("http://{}", proxy.address()),
        scene.urls()[1].clone(),
    ];
    scene.first.run(connect_to(&urls)).await?;
    scene.second.run(connect_to(&urls[1..])).await?;
    scene.first.run(acquire("a", "g")).await?;
    proxy.cut();
    sleep(LEASE + Duration::from_secs(1)).await;
    expect_held(&mut scene.first, "g").await?;
    ensure!(!is_free(&mut scene.second, "a").await?, "it was free");
    scene.first.run(release("g")).await?;
    Ok(())
}

pub(super) async fn a_wait_survives_its_coordinator(scene: &mut Scene) -> Result<()> {
    scene.second.run(acquire("a", "g")).await?;
    let waiting = scene.first.send(acquire("a", "h")).await?;
    sleep(Duration::from_millis(200)).await;
    scene.coordinators[0].kill();
    scene.first.state("resuming").await?;
    ensure!(!scene.first.is_answered(waiting), "the wait has ended");
    scene.second.run(release("g")).await?;
    scene.first.ok(waiting).await?;
    ensure!(!is_free(&mut scene.second, "a").await?, "nobody holds it");
    Ok(())
}

pub(super) async fn a_release_survives_its_coordinator(scene: &mut Scene) -> Result<()> {
    scene.first.run(acquire("a", "g")).await?;
    scene.coordinators[0].stop();
    let releasing = scene.first.send(release("g")).await?;
    scene.first.ok(releasing).await?;
    ensure!(scene.first.losses("g") == 0, "reported as lost");
    ensure!(is_free(&mut scene.second, "a").await?, "still held");
    Ok(())
}

pub(super) async fn a_short_pause_of_the_store_costs_nothing(scene: &mut Scene) -> Result<()> {
    scene.first.run(acquire("a", "g")).await?;
    scene.redis.stop();
    sleep(LEASE / 3).await;
    scene.redis.cont();
    sleep(LEASE).await;
    expect_held(&mut scene.first, "g").await?;
    scene.first.run(release("g")).await?;
    Ok(())
}

pub(super) async fn a_long_pause_of_the_store_is_a_loss(scene: &mut Scene) -> Result<()> {
    scene.first.run(acquire("a", "g")).await?;
    let begun = Instant::now();
    scene.redis.stop();
    let lost = scene.first.lost("g").await?;
    scene.redis.cont();
    // Before the store could give the lock away.
    let after = lost.at - begun;
    ensure!(after <= LEASE + Duration::from_millis(300), "{after:?}");
    Ok(())
}

pub(super) async fn a_store_that_forgets_is_a_loss(scene: &mut Scene) -> Result<()> {
    scene.first.run(acquire("a", "g")).await?;
    scene.redis.command(&["FLUSHALL"]).await;
    let lost = timeout(LEASE, scene.first.lost("g")).await;
    ensure!(lost.is_ok_and(|it| it.is_ok()), "nobody noticed");
    Ok(())
}

pub(super) async fn nobody_for_a_whole_lease_is_a_loss(scene: &mut Scene) -> Result<()> {
    scene.first.run(acquire("a", "g")).await?;
    let begun = Instant::now();
    scene.coordinators.iter().for_each(Coordinator::kill);
    let lost = scene.first.lost("g").await?;
    let after = lost.at - begun;
    ensure!(after <= LEASE + Duration::from_millis(300), "{after:?}");
    scene.first.state("ended").await?;
    Ok(())
}
