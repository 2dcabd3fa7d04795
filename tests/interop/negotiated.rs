//! Locks that stay closed after their holders, and elections, as Redisson sees them: held, by
//! another client. None of it is in the fields that Redisson's scripts count.

use lockkeeper_api::pb::{
    self, campaign_response::Event, election_service_client::ElectionServiceClient,
    session_request::Request,
};
use lockkeeper_testkit::client::{acquire_request, proto};
use tokio::time::Instant;

use crate::{
    agent::Version,
    redisson::{JavaThread, Kind, Redisson},
    world::{Ours, World, millis, secs},
};

const NAME: &str = "build";

async fn shared() -> (World, Redisson) {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    (world, redisson)
}

/// What `lock` of this kind, `tryLock` and `isLocked` of this name come to while it is held.
async fn expect_held(java: &JavaThread, kind: Kind) {
    assert_eq!(java.is_locked(kind, NAME).value().await, "yes");
    let tried = java.try_lock(kind, NAME, millis(100)).value().await;
    assert_eq!(tried, "no");
}

/// Acquires with a note and these times.
async fn acquire(ours: &mut Ours, kind: Kind, least: u64, delay: u64) -> pb::Grant {
    let some = |seconds: u64| (seconds > 0).then(|| proto(secs(seconds)));
    let request = pb::AcquireRequest {
        mode: kind.mode().into(),
        note: Some(pb::Note {
            reason: "a nightly build".to_owned(),
            labels: [("team".to_owned(), "web".to_owned())].into(),
        }),
        hold_at_least: some(least),
        lock_delay: some(delay),
        ..acquire_request(NAME, "")
    };
    let op_id = ours.session.send(Request::Acquire(request));
    ours.granted(op_id).await
}

#[tokio::test]
async fn redisson_waits_until_a_lock_has_been_held_for_its_time() {
    for kind in [Kind::Plain, Kind::Fair] {
        let (world, redisson) = shared().await;
        let java = redisson.thread("a");
        let mut ours = world.ours(kind, NAME).await;
        let begun = Instant::now();
        acquire(&mut ours, kind, 3, 0).await;
        assert_eq!(ours.release().await, 0);
        expect_held(&java, kind).await;
        assert_eq!(java.holds(kind, NAME).value().await, "0");
        java.lock(kind, NAME).value().await;
        assert!(
            begun.elapsed() >= secs(3),
            "{kind:?}: {:?}",
            begun.elapsed()
        );
        assert!(
            begun.elapsed() < secs(10),
            "{kind:?}: {:?}",
            begun.elapsed()
        );
        java.unlock(kind, NAME).value().await;
        ours.acquire().await;
    }
}

#[tokio::test]
async fn redisson_waits_for_the_delay_after_a_crash_and_not_after_a_release() {
    for kind in [Kind::Plain, Kind::Fair] {
        let world = World::with(Version::Current, 2, |settings| settings).await;
        let redisson = world.redisson().await;
        let java = redisson.thread("a");
        let mut ours = world.ours_at(0, kind, NAME, Some(secs(2))).await;
        acquire(&mut ours, kind, 0, 60).await;
        expect_held(&java, kind).await;
        assert_eq!(ours.release().await, 0);
        java.lock(kind, NAME).value().await;
        java.unlock(kind, NAME).value().await;

        acquire(&mut ours, kind, 0, 3).await;
        let killed = Instant::now();
        world.coordinators[0].kill();
        java.lock(kind, NAME).value().await;
        let waited = killed.elapsed();
        // The last renewal was at most a third of the lease ago.
        assert!(waited >= secs(4), "{kind:?}: {waited:?}");
        assert!(waited < secs(12), "{kind:?}: {waited:?}");
        java.unlock(kind, NAME).value().await;
    }
}

#[tokio::test]
async fn a_read_write_lock_of_redisson_is_not_disturbed_by_our_notes() {
    let (world, redisson) = shared().await;
    let java = redisson.thread("a");
    let mut reader = world.ours(Kind::Read, NAME).await;
    acquire(&mut reader, Kind::Read, 0, 0).await;
    java.lock(Kind::Read, NAME).value().await;
    let tried = java.try_lock(Kind::Write, NAME, millis(100)).value().await;
    assert_eq!(tried, "no");
    java.unlock(Kind::Read, NAME).value().await;
    assert_eq!(reader.release().await, 0);
    assert_eq!(java.is_locked(Kind::Read, NAME).value().await, "no");

    let mut writer = world.ours(Kind::Write, NAME).await;
    acquire(&mut writer, Kind::Write, 0, 0).await;
    expect_held(&java, Kind::Write).await;
    // Its read lock says that it is locked for readers only.
    let tried = java.try_lock(Kind::Read, NAME, millis(100)).value().await;
    assert_eq!(tried, "no");
    assert_eq!(writer.release().await, 0);
    java.lock(Kind::Write, NAME).value().await;
    java.unlock(Kind::Write, NAME).value().await;
}

#[tokio::test]
async fn a_leader_holds_redisson_s_fair_lock_and_a_redisson_holder_is_no_leader() {
    let (world, redisson) = shared().await;
    let java = redisson.thread("a");
    let ours = world.ours(Kind::Fair, NAME).await;
    let client = world.coordinators[0].client().await;
    let mut election = ElectionServiceClient::new(client.caller());
    let campaign = pb::CampaignRequest {
        name: NAME.to_owned(),
        session_id: ours.session.opened.session_id.clone(),
        value: "node-1".to_owned(),
        ..Default::default()
    };
    java.lock(Kind::Fair, NAME).value().await;
    let leader = pb::LeaderRequest {
        name: NAME.to_owned(),
    };
    let seen = election.leader(leader.clone()).await.unwrap().into_inner();
    assert!(seen.leader.is_none(), "{seen:?}");
    let mut events = election.campaign(campaign).await.unwrap().into_inner();
    let begins = events.message().await.unwrap().unwrap().event;
    assert!(matches!(begins, Some(Event::Waiting(_))), "{begins:?}");
    java.unlock(Kind::Fair, NAME).value().await;
    loop {
        match events.message().await.unwrap().unwrap().event.unwrap() {
            Event::Waiting(_) => {}
            Event::Elected(_) => break,
            other @ Event::NotElected(_) => panic!("{other:?}"),
        }
    }
    expect_held(&java, Kind::Fair).await;
    let seen = election.leader(leader).await.unwrap().into_inner();
    assert_eq!(seen.leader.unwrap().value, "node-1");
    let waits = java.lock(Kind::Fair, NAME);
    world.until_java_waits(Kind::Fair, NAME).await;
    let resign = pb::ResignRequest {
        name: NAME.to_owned(),
        session_id: ours.session.opened.session_id.clone(),
        ..Default::default()
    };
    election.resign(resign).await.unwrap();
    waits.value().await;
    java.unlock(Kind::Fair, NAME).value().await;
}
