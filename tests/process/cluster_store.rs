//! A store of several masters, each with its share of the names.

use crate::{
    cluster::{Cluster, MASTERS},
    redis_server::eventually,
    steps::measured,
};

#[tokio::test]
async fn the_harness_starts_fails_over_moves_slots_and_heals() {
    let started = tokio::time::Instant::now();
    let mut store = Cluster::start().await;
    measured("until a cluster stands", started.elapsed());
    let [name, _, _] = store.name_on_each_master("name").await;
    assert_eq!(store.master_of(&name).await, Some(0));
    store.command_on(&name, &["SET", &name, "1"]).await;

    let slot = store.slot(&name).await;
    store.migrate(slot, 1).await;
    assert_eq!(store.master_of(&name).await, Some(1));
    assert_eq!(store.text_on(&name, &["GET", &name]).await, "1");
    eventually("its replica has it", || async {
        let replica = store.node(1 + MASTERS);
        let count = ["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()];
        replica.text(&count).await == "1"
    })
    .await;

    store.kill(1);
    let killed = tokio::time::Instant::now();
    assert_eq!(store.until_another_serves(slot, 1).await, 1 + MASTERS);
    measured("until a replica is promoted", killed.elapsed());
    assert_eq!(store.text_on(&name, &["GET", &name]).await, "1");
    store.restart(1).await;
    store.until_settled().await;
    assert_eq!(store.running().len(), store.len());
}
