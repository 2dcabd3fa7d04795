//! etcd's elections.

use lockkeeper_access::{Quotas, Right};
use lockkeeper_facades::etcd::v3electionpb::{
    CampaignRequest, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest, ResignRequest,
    election_client::ElectionClient,
};
use lockkeeper_testkit::client::Caller;
use tonic::Streaming;

use super::etcd::{Etcd, NO_LEASE, options, world};
use crate::access::{access, rule};
use crate::support::prelude::*;

const NAME: &str = "workers";

struct Election(ElectionClient<Caller>);

impl Election {
    fn of(etcd: &Etcd) -> Self {
        Self(ElectionClient::new(etcd.caller.clone()))
    }

    async fn campaign(&mut self, lease: i64, value: &[u8]) -> Result<LeaderKey, Status> {
        Ok(self.campaigned(lease, value).await?.0)
    }

    /// The leader and the revision.
    async fn campaigned(&mut self, lease: i64, value: &[u8]) -> Result<(LeaderKey, i64), Status> {
        let elected = self.0.campaign(CampaignRequest {
            name: NAME.into(),
            lease,
            value: value.to_vec(),
        });
        let elected = elected.await?.into_inner();
        Ok((elected.leader.unwrap(), elected.header.unwrap().revision))
    }

    /// Returns the revision.
    async fn proclaim(&mut self, leader: &LeaderKey, value: &str) -> Result<i64, Status> {
        let (leader, value) = (Some(leader.clone()), value.into());
        let proclaimed = self.0.proclaim(ProclaimRequest { leader, value }).await?;
        Ok(proclaimed.into_inner().header.unwrap().revision)
    }

    async fn resign(&mut self, leader: &LeaderKey) {
        let leader = Some(leader.clone());
        self.0.resign(ResignRequest { leader }).await.unwrap();
    }

    async fn leader(&mut self) -> Result<Leads, Status> {
        let leader = self.0.leader(LeaderRequest { name: NAME.into() }).await?;
        Ok(leads(leader.into_inner()))
    }

    async fn observe(&mut self) -> Streaming<LeaderResponse> {
        let observed = self.0.observe(LeaderRequest { name: NAME.into() }).await;
        observed.unwrap().into_inner()
    }
}

/// The value, the term and the lease.
type Leads = (String, i64, i64);

fn leads(response: LeaderResponse) -> Leads {
    let kv = response.kv.unwrap();
    assert_eq!(response.header.unwrap().revision, kv.mod_revision);
    let value = String::from_utf8(kv.value).unwrap();
    (value, kv.create_revision, kv.lease)
}

async fn next(observed: &mut Streaming<LeaderResponse>) -> Leads {
    leads(observed.message().await.unwrap().unwrap())
}

#[tokio::test(start_paused = true)]
async fn leaders_follow_each_other_and_observers_see_them() {
    let (world, _client, mut etcd) = world().await;
    let (mut one, mut other) = (Election::of(&etcd), Election::of(&etcd));
    let (first, second) = (etcd.grant(60).await, etcd.grant(60).await);
    let refused = one.leader().await.unwrap_err();
    assert_eq!(refused.message(), "election: no leader");
    let mut observed = one.observe().await;

    let leader = one.campaign(first, b"one").await.unwrap();
    assert_eq!(leader.key, format!("{NAME}/{first:x}").into_bytes());
    assert_eq!(
        next(&mut observed).await,
        ("one".to_owned(), leader.rev, first)
    );
    let (then, ()) = tokio::join!(other.campaign(second, b"other"), async {
        world.until_waiting(0, 1).await;
        one.proclaim(&leader, "one, again").await.unwrap();
        let again = ("one, again".to_owned(), leader.rev, first);
        assert_eq!(one.leader().await.unwrap(), again);
        assert_eq!(next(&mut observed).await, again);
        one.resign(&leader).await;
    });
    let then = then.unwrap();
    assert!(then.rev > leader.rev);
    assert_eq!(
        next(&mut observed).await,
        ("other".to_owned(), then.rev, second)
    );

    let refused = one.proclaim(&leader, "late").await.unwrap_err();
    expect_status(&refused, Code::FailedPrecondition, "NOT_OWNER");
    assert_eq!(refused.message(), "election: not leader");
    one.resign(&leader).await;
    let other_leads = ("other".to_owned(), then.rev, second);
    assert_eq!(
        one.leader().await.unwrap(),
        other_leads,
        "a former leader resigned"
    );
    etcd.revoke(second).await.unwrap();
    let refused = one.leader().await.unwrap_err();
    assert_eq!(refused.message(), "election: no leader");
    etcd.revoke(first).await.unwrap();
    let refused = one
        .proclaim(&leader, "without its lease")
        .await
        .unwrap_err();
    expect_status(&refused, Code::FailedPrecondition, "NOT_OWNER");
    assert_eq!(refused.message(), "election: not leader");
    drop(observed);
    world.expect_nothing_left(&[NAME]).await;
}

#[tokio::test(start_paused = true)]
async fn one_resignation_ends_what_a_lease_has_campaigned_for_twice() {
    let (world, _client, mut etcd) = world().await;
    let mut election = Election::of(&etcd);
    let lease = etcd.grant(60).await;
    let leader = election.campaign(lease, b"a").await.unwrap();
    assert_eq!(election.campaign(lease, b"b").await.unwrap(), leader);
    assert_eq!(election.leader().await.unwrap().0, "b");
    election.resign(&leader).await;
    assert!(election.leader().await.is_err());
    etcd.revoke(lease).await.unwrap();
    world.expect_nothing_left(&[NAME]).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_of_an_earlier_term_ends_no_later_one_of_the_same_lease() {
    let (_world, _client, mut etcd) = world().await;
    let mut election = Election::of(&etcd);
    let lease = etcd.grant(60).await;
    let earlier = election.campaign(lease, b"a").await.unwrap();
    election.resign(&earlier).await;
    let later = election.campaign(lease, b"b").await.unwrap();
    election.resign(&earlier).await;
    assert_eq!(election.leader().await.unwrap().1, later.rev);
}

#[tokio::test(start_paused = true)]
async fn an_observer_ends_with_the_right_to_its_name() {
    let rules = |of_bob: &str| {
        let all = [Right::Acquire, Right::Release, Right::Describe];
        vec![rule("alice", "", &all), rule("bob", of_bob, &all)]
    };
    let access = access(rules(""), Quotas::default());
    let world = World::with(&Options {
        access: access.clone(),
        ..options()
    });
    let mut alice = Etcd::of(&world.client_as(0, "alice").await);
    let bob = Etcd::of(&world.client_as(0, "bob").await);
    let mut observed = Election::of(&bob).observe().await;
    access.set(rules("other/"), Quotas::default());
    let lease = alice.grant(60).await;
    let leads = Election::of(&alice).campaign(lease, b"a").await;
    leads.unwrap();
    let ended = observed.message().await.unwrap_err();
    expect_status(&ended, Code::PermissionDenied, "PERMISSION_DENIED");
}

#[tokio::test(start_paused = true)]
async fn revisions_grow_with_each_value_and_are_none_from_before_the_term() {
    let (_world, _client, mut etcd) = world().await;
    let mut election = Election::of(&etcd);
    let lease = etcd.grant(60).await;
    let mut last = 0;
    for value in [b"a", b"b", b"c"] {
        // Other locks of the name move its counter.
        for _ in 0..3 {
            let another = etcd.grant(60).await;
            etcd.lock(NAME, another).await.unwrap();
            etcd.revoke(another).await.unwrap();
        }
        let (leader, begun) = election.campaigned(lease, value).await.unwrap();
        assert!(begun > last && begun >= leader.rev);
        last = election.proclaim(&leader, "again").await.unwrap();
        assert!(last > begun);
        let asked = LeaderRequest { name: NAME.into() };
        let seen = election.0.leader(asked).await.unwrap().into_inner();
        let kv = seen.kv.unwrap();
        assert_eq!((kv.mod_revision, kv.create_revision), (last, leader.rev));
        election.resign(&leader).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_has_ended_resigns_without_an_error() {
    let (_world, _client, mut etcd) = world().await;
    let mut election = Election::of(&etcd);
    let lease = etcd.grant(1).await;
    let leader = election.campaign(lease, b"a").await.unwrap();
    tokio::time::sleep(secs(3)).await;
    election.resign(&leader).await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused_by_field() {
    let (_world, _client, mut etcd) = world().await;
    let mut election = Election::of(&etcd);
    let lease = etcd.grant(60).await;
    for value in [&b"\xff"[..], b"two\nlines"] {
        let refused = election.campaign(lease, value).await.unwrap_err();
        expect_status(&refused, Code::InvalidArgument, "INVALID_VALUE");
    }
    let refused = election.campaign(0, b"x").await.unwrap_err();
    expect_status(&refused, Code::InvalidArgument, "INVALID_LEASE");
    let refused = election.campaign(77, b"x").await.unwrap_err();
    assert_eq!(refused.message(), NO_LEASE);
    let value = b"x".to_vec();
    let refused = election
        .0
        .proclaim(ProclaimRequest {
            leader: None,
            value,
        })
        .await;
    expect_refused(refused, Code::InvalidArgument, "INVALID_LEADER");
}
