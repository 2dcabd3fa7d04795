//! What is followed and handed over between two drivers.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tokio::time::sleep;

use super::scene::{Scene, acquire, is_free, release};
use crate::messages::TOLERANCE;

pub(super) async fn a_claim_moves_the_lock(scene: &mut Scene) -> Result<()> {
    let given = scene.first.run(acquire("a", "g")).await?;
    let offer = json!({ "do": "offer", "guard": "g" });
    let ticket = scene.first.run(offer).await?["ticket"].clone();
    let claim = json!({ "do": "claim", "name": "a", "ticket": ticket, "guard": "h" });
    let taken = scene.second.run(claim.clone()).await?;
    let number = |guard: &serde_json::Value| -> Result<u64> {
        let text = guard["fencing_token"].as_str().context("no token")?;
        Ok(text.parse()?)
    };
    ensure!(number(&taken)? > number(&given)?, "{taken} after {given}");
    let lost = scene.first.lost("g").await?.event;
    ensure!(lost["reason"] == "HANDED_OVER", "{lost}");
    let again = scene.first.send(claim).await?;
    let failure = scene.first.fails(again, "refused").await?;
    ensure!(failure.reason == "TICKET_REFUSED", "{failure:?}");
    scene.second.run(release("h")).await?;
    ensure!(is_free(&mut scene.first, "a").await?, "still held");
    Ok(())
}

pub(super) async fn an_observer_survives_its_coordinator(scene: &mut Scene) -> Result<()> {
    let campaign = json!({ "do": "campaign", "name": "e", "value": "one", "guard": "g" });
    let term = scene.second.run(campaign).await?["fencing_token"].clone();
    let term = term.as_str().context("no term")?;
    let observe = json!({ "do": "observe", "name": "e", "feed": "f" });
    scene.first.send(observe).await?;
    scene.first.told("f", 1).await?;
    scene.coordinators[0].kill();
    let proclaim = json!({ "do": "proclaim", "guard": "g", "value": "two" });
    let revision = scene.second.run(proclaim).await?["revision"].clone();
    let revision: u64 = revision.as_str().context("no revision")?.parse()?;
    scene.second.run(release("g")).await?;
    let told = scene.first.told("f", 3).await?;
    let expected = [
        format!("leader {} one {term}", revision - 1),
        format!("leader {revision} two {term}"),
        "no_leader".to_owned(),
    ];
    ensure!(told == expected, "{expected:?} expected: {told:?}");
    Ok(())
}

pub(super) async fn a_watch_sees_grants_and_their_ends(scene: &mut Scene) -> Result<()> {
    let watch = json!({ "do": "watch_lock", "name": "a", "feed": "f" });
    scene.first.send(watch).await?;
    scene.first.told("f", 1).await?;
    let guard = scene.second.run(acquire("a", "g")).await?;
    let token = guard["fencing_token"].as_str().context("no token")?;
    scene.first.told("f", 2).await?;
    scene.second.run(release("g")).await?;
    let told = scene.first.told("f", 4).await?;
    let (granted, ended) = (format!("granted {token}"), format!("ended {token}"));
    let expected = ["state", &granted, &ended, "free"];
    ensure!(told == expected, "{expected:?} expected: {told:?}");
    Ok(())
}

pub(super) async fn a_wait_until_free_survives_its_coordinator(scene: &mut Scene) -> Result<()> {
    scene.second.run(acquire("a", "g")).await?;
    let wait = json!({ "do": "await_free", "name": "a", "wait_ms": 60_000 });
    let id = scene.first.send(wait).await?;
    sleep(TOLERANCE).await;
    scene.coordinators[0].kill();
    sleep(TOLERANCE).await;
    ensure!(!scene.first.is_answered(id), "it is held");
    scene.second.run(release("g")).await?;
    scene.first.ok(id).await?;
    ensure!(is_free(&mut scene.second, "a").await?, "a wait holds it");
    Ok(())
}
