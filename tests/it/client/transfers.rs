//! Leaderships that are transferred to a candidate.

use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_client::{Error, Guard, LockMode, LostReason, Observed, Session, TransferRequest};
use tokio::{task::JoinHandle, time::timeout};

use super::two;
use crate::support::Network;
use crate::support::prelude::*;

/// Campaigns by this name in a session of its own.
struct Candidate {
    session: Session,
    waits: JoinHandle<Result<Guard, Error>>,
}

/// Each begins when those before it wait.
async fn line_up(network: &Network, names: &[&str]) -> Vec<Candidate> {
    let mut line = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let session = network.client(&[at % 2]).session().open().await.unwrap();
        let lock = session.lock("workers").mode(LockMode::Fair).owner(*name);
        let waits = spawn_detached("campaign", lock.acquire());
        eventually("it waits", || async {
            session.describe("workers").await.unwrap().waiters.len() == at + 1
        })
        .await;
        line.push(Candidate { session, waits });
    }
    line
}

fn to(candidate: &str) -> TransferRequest {
    TransferRequest {
        to: candidate.to_owned(),
        ..TransferRequest::default()
    }
}

/// The owners of those who wait.
async fn in_line(session: &Session) -> Vec<String> {
    let seen = session.describe("workers").await.unwrap();
    seen.waiters.into_iter().map(|it| it.owner).collect()
}

#[tokio::test(start_paused = true)]
async fn the_named_candidate_leads_next_and_the_others_keep_their_order() {
    let (_world, network, session) = two().await;
    let leads = session.election("workers").campaign("a").await.unwrap();
    let mut observer = network.client(&[1]).observe("workers", 0);
    let mut order = Vec::new();
    if let Observed::Leader(leader) = observer.next().await.unwrap() {
        order.push((leader.term, leader.value));
    }
    let line = line_up(&network, &["b", "c", "d", "e"]).await;
    let elsewhere = network.client(&[1]).session().open().await.unwrap();
    let asked = elsewhere
        .election("workers")
        .transfer(to("d"))
        .await
        .unwrap();
    assert!(asked.held && asked.reached);
    let request = leads.guard().yield_requested().await;
    assert_eq!(request.reason, "the leadership is transferred");
    assert_eq!(in_line(&session).await, ["d", "b", "c", "e"]);
    assert!(!leads.lost().is_cancelled(), "the leader drains first");
    let mut terms = vec![leads.term()];
    let resigned = Instant::now();
    leads.resign().await.unwrap();
    let [b, c, d, e] = line.try_into().unwrap_or_else(|_| panic!("four wait"));
    for (name, Candidate { session, waits }) in [("d", d), ("b", b), ("c", c), ("e", e)] {
        let guard = waits.await.unwrap().unwrap();
        let next = session.election("workers").lead(guard, name).await.unwrap();
        terms.push(next.term());
        next.resign().await.unwrap();
    }
    assert!(resigned.elapsed() < secs(1), "{:?}", resigned.elapsed());
    assert!(terms.is_sorted_by(|one, next| one < next), "{terms:?}");
    while order.len() < terms.len() {
        let seen = timeout(secs(60), observer.next()).await;
        match seen.expect("it sees all").unwrap() {
            Observed::Leader(leader) => order.push((leader.term, leader.value)),
            Observed::NoLeader(_) => {}
            Observed::Missed(_) => panic!("every term is seen"),
        }
    }
    let values = ["a", "d", "b", "c", "e"].map(ToOwned::to_owned);
    assert_eq!(order, terms.into_iter().zip(values).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_preferred_candidate_comes_first_and_asks_a_leader_that_is_not_preferred() {
    let (_world, network, session) = two().await;
    let leads = session.election("workers").campaign("a").await.unwrap();
    let line = line_up(&network, &["b", "c"]).await;
    let elsewhere = network.client(&[1]).session().open().await.unwrap();
    let prefer = |owner| {
        let lock = elsewhere.lock("workers").mode(LockMode::Fair).owner(owner);
        spawn_detached("campaign", lock.preferred(true).acquire())
    };
    let first = prefer("d");
    let request = leads.guard().yield_requested().await;
    assert_eq!(request.reason, "a preferred candidate waits");
    assert_eq!(in_line(&session).await, ["d", "b", "c"]);
    leads.resign().await.unwrap();
    let leader = first.await.unwrap().unwrap();
    let second = prefer("e");
    eventually("it comes first", || async {
        in_line(&session).await == ["e", "b", "c"]
    })
    .await;
    let asked = timeout(secs(60), leader.yield_requested()).await;
    assert!(asked.is_err(), "the leader is preferred too");
    leader.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();
    for candidate in line {
        let guard = candidate.waits.await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_fair_lock_has_preferred_waiters() {
    let (_world, _network, session) = two().await;
    let refused = session.lock("a").preferred(true).acquire().await;
    assert_eq!(refused.unwrap_err().reason().unwrap(), "INVALID_PREFERRED");
    let free = session.lock("a").mode(LockMode::Fair).preferred(true);
    free.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_candidate_is_known_by_its_session_too_and_must_wait() {
    let (_world, network, session) = two().await;
    let election = session.election("workers");
    let free = election.transfer(to("")).await.unwrap();
    assert!(!free.held && !free.reached);
    let leads = election.campaign("a").await.unwrap();
    let line = line_up(&network, &["b", "c"]).await;
    for nobody in ["z", "guard-1", "workers"] {
        let refused = election.transfer(to(nobody)).await.unwrap_err();
        assert_eq!(refused.reason().unwrap(), "CANDIDATE_NOT_WAITING");
    }
    assert_eq!(in_line(&session).await, ["b", "c"]);
    let seen = session.describe("workers").await.unwrap();
    let second = &seen.waiters[1].session_digest;
    assert!(election.transfer(to(second)).await.unwrap().reached);
    assert_eq!(in_line(&session).await, ["c", "b"]);
    leads.resign().await.unwrap();
    for candidate in line.into_iter().rev() {
        candidate
            .waits
            .await
            .unwrap()
            .unwrap()
            .release()
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_does_not_resign_leads_on_unless_it_is_preempted() {
    let (_world, network, session) = two().await;
    let election = session.election("workers");
    let leads = election.campaign("a").await.unwrap();
    let mut line = line_up(&network, &["b", "c"]).await;
    election.transfer(to("c")).await.unwrap();
    tokio::time::sleep(secs(60)).await;
    assert!(!leads.lost().is_cancelled());
    assert_eq!(in_line(&session).await, ["c", "b"], "it stays the first");
    let preempts = TransferRequest {
        preempt: true,
        within: Some(prost_types::Duration {
            seconds: 10,
            nanos: 0,
        }),
        ..to("c")
    };
    let begun = Instant::now();
    election.transfer(preempts).await.unwrap();
    leads.lost().cancelled().await;
    assert!(begun.elapsed() >= secs(10), "{:?}", begun.elapsed());
    let loss = leads.guard().loss().unwrap();
    let why = expect!(&loss, Error::Lost { reason, .. } => *reason);
    assert_eq!(why, LostReason::Preempted);
    let valid_until = leads.guard().valid_until();
    let Candidate { waits, .. } = line.pop().unwrap();
    let next = waits.await.unwrap().unwrap();
    assert!(Instant::now() >= valid_until, "two leaders at once");
    assert!(next.fencing_token() > leads.term());
}
