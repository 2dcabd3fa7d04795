//! A master of a cluster that dies: the other shards go on as if nothing had happened, and its own
//! comes back with the replica that is promoted.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::time::sleep;

use crate::prelude::*;
use crate::{
    cluster::{Cluster, MASTERS},
    heartbeat,
};

const TASKS: usize = 64;

/// What is served is shown for each of these.
const WINDOW: Duration = millis(100);

/// A shard that lives may not pause for longer: a busy machine makes it pause for a moment, but
/// waiting for the dead one would take the time limit of a call, which is 2 s, or all of the
/// failover.
const PAUSE_MAX: Duration = secs(1);

/// How much longer than Redis itself a shard may be away.
const MARGIN: Duration = secs(1);

/// No call may take longer, whatever dies.
const CALL_MAX: Duration = secs(5);

async fn deployment() -> (Cluster, Coordinator) {
    let store = Cluster::start().await;
    let settings = Settings::on(&store.url()).with("session.lease", "20s");
    let coordinator = Coordinator::start(&settings).await;
    expect_serving(&coordinator).await;
    (store, coordinator)
}

/// What happened on one shard, by 100 ms since the start.
#[derive(Default)]
struct Served {
    /// When calls that succeeded began and ended.
    calls: Mutex<Vec<(Instant, Instant)>>,
    errors: AtomicU64,
}

// === impl Served ===

impl Served {
    /// How many were served in each window from an instant on. The last is not whole and left out.
    fn windows(&self, from: Instant) -> Vec<usize> {
        let mut windows = Vec::new();
        for (_, answered) in self.calls.lock().iter() {
            let Some(since) = answered.checked_duration_since(from) else {
                continue;
            };
            let window = usize::try_from(since.as_millis() / WINDOW.as_millis()).unwrap();
            windows.resize(windows.len().max(window + 1), 0);
            windows[window] += 1;
        }
        windows.pop();
        windows
    }

    /// The longest time between two answers, from an instant on to another.
    fn longest_pause(&self, from: Instant, to: Instant) -> Duration {
        let calls = self.calls.lock();
        let answers = calls.iter().map(|(_, answered)| *answered);
        let mut answers: Vec<_> = answers.filter(|at| *at > from).chain([from, to]).collect();
        answers.sort();
        let pauses = answers.windows(2).map(|pair| pair[1] - pair[0]);
        pauses.max().unwrap_or_default()
    }
}

/// Takes and gives back one lock after the other until it is told to stop.
async fn load(mut client: Client, name: String, owner: String, served: Arc<Served>, end: Instant) {
    while Instant::now() < end {
        let asked = Instant::now();
        let tried = client.try_acquire(&name, &owner, secs(30));
        let tried = timeout(CALL_MAX, tried).await.expect("no call hangs");
        if !tried.is_ok_and(|tried| tried.acquired) {
            served.errors.fetch_add(1, Ordering::Relaxed);
            sleep(millis(20)).await;
            continue;
        }
        served.calls.lock().push((asked, Instant::now()));
        let released = timeout(CALL_MAX, client.release(&name, &owner)).await;
        let _ = released.expect("no call hangs");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mission_21_a_master_killed_under_load_costs_no_other_shard_anything() {
    let (mut store, coordinator) = deployment().await;
    let names = store.name_on_each_master("load").await;
    let slot = store.slot(&names[0]).await;
    let served: Vec<Arc<Served>> = (0..MASTERS).map(|_| Arc::default()).collect();
    heartbeat::begin();
    let end = Instant::now() + secs(10);
    let client = coordinator.client().await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let shard = task % MASTERS;
            let name = format!("{{{}}}:{task}", names[shard]);
            let owner = format!("owner-{task}");
            let served = Arc::clone(&served[shard]);
            spawn_detached("load", load(client.clone(), name, owner, served, end))
        })
        .collect();
    sleep(secs(2)).await;
    store.kill(0);
    let killed = Instant::now();
    let replica = store.node(MASTERS);
    let raw = format!("{{{}}}:raw", names[0]);
    while replica.try_command(&["SET", &raw, "1"]).await.is_err() {
        sleep(millis(5)).await;
    }
    let by_redis = killed.elapsed();
    join_all(tasks).await;

    for (shard, served) in served.iter().enumerate() {
        let windows = served.windows(killed);
        let errors = served.errors.load(Ordering::Relaxed);
        let total: usize = windows.iter().sum();
        let pause = served.longest_pause(killed, end);
        let what = format!(
            "shard {shard}: {total} served, {errors} errors, by 100 ms since the kill \
             {windows:?}; longest pause"
        );
        measured(&what, pause);
        if shard > 0 {
            assert_eq!(errors, 0, "shard {shard}");
            let late = heartbeat::lateness(killed, end).total;
            let text = format!("shard {shard}: {pause:?}, machine late {late:?}, {windows:?}");
            assert!(pause < PAUSE_MAX + late, "{text}");
        }
    }
    let calls = std::mem::take(&mut *served[0].calls.lock());
    // What was under way when it died may have been answered before.
    let after = calls.iter().filter(|(asked, _)| *asked > killed);
    let back = after.map(|(_, answered)| *answered - killed).min();
    let back = back.expect("the shard is back");
    measured("until the promoted replica takes a raw write", by_redis);
    measured("until the shard serves again", back);
    assert!(back < by_redis + MARGIN, "{back:?}, Redis {by_redis:?}");
    assert_eq!(store.master_of_slot(slot).await, Some(MASTERS));
}

#[tokio::test]
async fn mission_21_grants_and_waits_live_through_the_loss_of_their_master() {
    let (mut store, coordinator) = deployment().await;
    let mut client = coordinator.client().await;
    let names = store.name_on_each_master("build").await;
    let mut holder = client.open().await;
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for name in &names {
        held.push(holder.acquire(name).await);
        waiting.push(timed_wait(&mut client, name).await);
    }
    let slot = store.slot(&names[0]).await;
    until_replicated(&store, &names[0], MASTERS).await;
    store.kill(0);
    let killed = Instant::now();
    let master = store.until_another_serves(slot, 0).await;
    eventually("the grant is renewed on the new master", || async {
        let left = store.node(master).text(&["PTTL", &names[0]]).await;
        left.parse::<i64>().unwrap() > 19_000
    })
    .await;
    measured("until a renewal after the master's death", killed.elapsed());
    for (name, (waiting, held)) in names.iter().zip(waiting.into_iter().zip(held)) {
        assert!(!waiting.is_finished(), "{name}");
        assert!(holder.release(name).await.released, "{name}");
        let released = Instant::now();
        let (granted_at, (granted, _session)) = waiting.await.unwrap();
        measured("from release to grant", granted_at - released);
        assert!(granted.fencing_token > held.fencing_token, "{name}");
    }
    expect_serving(&coordinator).await;
}

#[tokio::test]
async fn a_grant_that_the_promoted_replica_does_not_know_is_told_as_lost() {
    let (mut store, coordinator) = deployment().await;
    let mut client = coordinator.client().await;
    let names = store.name_on_each_master("build").await;
    let mut holder = client.open().await;
    // From now on the replica is not let in, so what is written does not reach it.
    let master = store.node(0);
    master.command(&["CONFIG", "SET", "requirepass", "x"]).await;
    master.command(&["CLIENT", "KILL", "TYPE", "replica"]).await;
    eventually("the replica is cut off", || async {
        let info = store.node(MASTERS).info("replication").await;
        info.contains("master_link_status:down")
    })
    .await;
    for name in &names {
        holder.acquire(name).await;
    }
    store.kill(0);
    let killed = Instant::now();
    let (lost, _) = lost_after_risk(&mut holder).await;
    measured("until the loss is told", killed.elapsed());
    assert_eq!(lost.reason, i32::from(LostReason::Expired));
    assert_eq!(lost.grant.unwrap().name, names[0]);
    for name in &names[1..] {
        assert!(holder.release(name).await.released, "{name} was not lost");
    }
}

#[tokio::test]
async fn a_master_that_comes_back_after_a_freeze_is_not_believed() {
    judged_by_time(async || {
        let (store, coordinator) = deployment().await;
        let mut client = coordinator.client().await;
        let [name, other, _] = store.name_on_each_master("build").await;
        let slot = store.slot(&name).await;
        let mut holder = client.open().await;
        holder.acquire(&name).await;
        until_replicated(&store, &name, MASTERS).await;
        store.stop(0);
        let frozen = Instant::now();
        // The others serve as if nothing had happened.
        assert!(client.gets_for(&other, "x", secs(30)).await);
        since(frozen).must_be_below(millis(500), "a lock of another shard");
        let master = store.until_another_serves(slot, 0).await;
        let sibling = format!("{{{name}}}:sibling");
        eventually("the shard serves", || async {
            let tried = client.clone().try_acquire(&sibling, "x", secs(30)).await;
            tried.is_ok_and(|tried| tried.acquired)
        })
        .await;
        let mut waiter = client.open().await;
        let op_id = waiter.send_acquire(&name, "");
        eventually("it is renewed", || async {
            let left = store.node(master).text(&["PTTL", &name]).await;
            left.parse::<i64>().unwrap() > 19_000
        })
        .await;
        assert!(holder.release(&name).await.released);
        waiter.expect_granted(op_id).await;
        store.cont(0);
        store.until_settled().await;
        assert!(waiter.release(&name).await.released);
        assert_eq!(store.text_on(&name, &["EXISTS", &name]).await, "0");
    })
    .await;
}

async fn until_replicated(store: &Cluster, name: &str, replica: usize) {
    let slot = store.slot(name).await.to_string();
    eventually("the replica has the lock", || async {
        let count = ["CLUSTER", "COUNTKEYSINSLOT", &slot];
        store.node(replica).text(&count).await != "0"
    })
    .await;
}
