//! Elections.

use lockkeeper_client::{LockMode, Observed};

use tokio::time::timeout;

use super::two;
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn a_candidate_leads_until_it_resigns_and_then_the_next() {
    let (world, network, session) = two().await;
    let election = session.election("workers");
    let mut observer = network.client(&[1]).observe("workers", 0);
    assert!(matches!(observer.next().await, Ok(Observed::NoLeader(_))));
    let leads = election.campaign("a:1").await.unwrap();
    let seen = election.leader().await.unwrap().leader.unwrap();
    assert_eq!((seen.term, seen.value.as_str()), (leads.term(), "a:1"));
    let revision = leads.proclaim("a:2").await.unwrap();
    assert_eq!(revision, seen.revision + 1);
    let lock = session.lock("workers").mode(LockMode::Fair);
    let (waits, resigned) = tokio::join!(lock.wait_timeout(secs(20)).acquire(), async {
        tokio::time::sleep(secs(1)).await;
        leads.resign().await
    });
    resigned.unwrap();
    let next = election.lead(waits.unwrap(), "b:1").await.unwrap();
    assert!(next.term() > seen.term && !next.lost().is_cancelled());
    let mut values = Vec::new();
    while values.len() < 3 {
        if let Observed::Leader(leader) = observer.next().await.unwrap() {
            values.push((leader.term, leader.value));
        }
    }
    let values: Vec<_> = values
        .iter()
        .map(|(term, it)| (*term, it.as_str()))
        .collect();
    let (first, second) = (seen.term, next.term());
    assert_eq!(values, [(first, "a:1"), (first, "a:2"), (second, "b:1")]);
    drop(next);
    assert!(matches!(observer.next().await, Ok(Observed::NoLeader(_))));
    drop(observer);
    session.close().await.unwrap();
    world.expect_nothing_left(&["workers"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_lost_its_lock_proclaims_no_more() {
    let (world, _network, session) = two().await;
    let leads = session.election("workers").campaign("a").await.unwrap();
    world.redis(&["DEL", "workers"]);
    let refused = leads.proclaim("b").await.unwrap_err();
    assert!(refused.is_lost(), "{refused}");
    leads.lost().cancelled().await;
}

#[tokio::test(start_paused = true)]
async fn an_observer_goes_on_elsewhere_and_misses_nothing() {
    let (_world, network, session) = two().await;
    let election = session.election("workers");
    let leads = election.campaign("0").await.unwrap();
    let mut observer = network.client(&[1, 0]).observe("workers", 0);
    for value in 1..20 {
        let seen = expect!(observer.next().await.unwrap(), Observed::Leader);
        assert_eq!(seen.value, (value - 1).to_string());
        if value % 5 == 0 {
            network.cut(value / 5 % 2);
        }
        leads.proclaim(value.to_string()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_saw_no_term_before_its_stream_broke_reports_a_gap() {
    let (_world, network, session) = two().await;
    let mut observer = network.client(&[1]).observe("workers", 0);
    assert!(matches!(observer.next().await, Ok(Observed::NoLeader(_))));
    network.cut(1);
    let election = session.election("workers");
    election
        .campaign("gone")
        .await
        .unwrap()
        .resign()
        .await
        .unwrap();
    let leads = election.campaign("b").await.unwrap();
    let seen = timeout(secs(60), async {
        [
            observer.next().await.unwrap(),
            observer.next().await.unwrap(),
        ]
    });
    let seen = seen.await.expect("a gap and a term");
    let leader = expect!(&seen, [Observed::Missed(_), Observed::Leader(leader)] => leader);
    assert_eq!((leader.term, leader.value.as_str()), (leads.term(), "b"));
    leads.proclaim("c").await.unwrap();
    let next = observer.next().await.unwrap();
    assert!(
        matches!(next, Observed::Leader(_)),
        "only one gap: {next:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn observers_that_lost_the_same_coordinator_do_not_all_come_back_at_once() {
    let (_world, network, session) = two().await;
    let leads = session.election("workers").campaign("a").await.unwrap();
    let mut observers: Vec<_> = (0..8)
        .map(|_| network.client(&[1]).observe("workers", 0))
        .collect();
    for observer in &mut observers {
        observer.next().await.unwrap();
    }
    network.cut(1);
    let cut = Instant::now();
    leads.proclaim("b").await.unwrap();
    let back = observers.into_iter().map(|mut observer| async move {
        let seen = observer.next().await.unwrap();
        assert!(
            matches!(&seen, Observed::Leader(it) if it.value == "b"),
            "{seen:?}"
        );
        cut.elapsed()
    });
    let mut back = futures::future::join_all(back).await;
    assert!(back.iter().all(|after| *after < secs(2)), "{back:?}");
    back.dedup();
    assert!(back.len() > 1, "all at once: {back:?}");
}
