//! Locks on a majority of real Redis servers: what goes on when some of them are dead or frozen,
//! and what is told when too many are.

use crate::prelude::*;
use crate::{coordinator::client_at, quorum_members::Quorum};

const ALL: [usize; 5] = [0, 1, 2, 3, 4];

/// The time limit of a member that these tests set.
const MEMBER_TIMEOUT: Duration = millis(250);

#[tokio::test]
async fn mission_5_locks_are_taken_renewed_and_released_while_a_majority_works() {
    let mut quorum = Quorum::start(5).await;
    let coordinator = quorum.coordinator(&quorum.settings()).await;
    let mut client = coordinator.client().await;
    let mut session = client.open().await;
    let before = session.acquire("before").await;
    assert_eq!(quorum.count_of(&ALL, "before").await, 5);

    quorum.members[0].kill();
    quorum.members[3].kill();
    let alive = [1, 2, 4];
    let during = session.acquire("during").await;
    assert_eq!(quorum.count_of(&alive, "during").await, 3);
    // Time itself is what is tested: without renewals both leases would end.
    tokio::time::sleep(secs(5)).await;
    for (name, grant) in [("before", &before), ("during", &during)] {
        assert_eq!(quorum.count_of(&alive, name).await, 3, "{name}");
        let shown = client.describe(name).await;
        assert_eq!(shown.holders.len(), 1, "{name}");
        assert_eq!(shown.last_fencing_token, grant.fencing_token);
        assert!(session.release(name).await.released, "{name}");
        assert_eq!(quorum.count_of(&alive, name).await, 0, "{name}");
    }
    let again = session.acquire("before").await;
    assert!(again.fencing_token > before.fencing_token);
    session.close().await.unwrap();
    quorum.until_count(&alive, "before", 0).await;
}

#[tokio::test]
async fn mission_5_without_a_majority_nothing_is_granted_and_holders_are_told() {
    judged_by_time(async || {
        let mut quorum = Quorum::start(5).await;
        let coordinator = quorum.coordinator(&quorum.settings()).await;
        let mut client = coordinator.client().await;
        let mut session = open_with_lease(&mut client, secs(4)).await;
        let held = session.acquire("held").await;
        for dead in [0, 1, 2] {
            quorum.members[dead].kill();
        }
        let killed_at = Instant::now();
        let refused = client.try_acquire("other", "x", secs(5)).await.unwrap_err();
        expect_status(&refused, Code::Unavailable, "STORE_UNAVAILABLE");
        assert!(
            refused
                .message()
                .contains("2 of 5 stores answered, 3 are needed"),
            "{refused}"
        );
        since(killed_at).must_be_below(secs(2), "refused by a minority");
        assert_eq!(
            quorum.count_of(&[3, 4], "other").await,
            0,
            "what was got is given back"
        );

        let (lost, risk) = lost_after_risk(&mut session).await;
        assert!(risk.is_some(), "it is told before that it may happen");
        assert_eq!(lost.grant.unwrap().fencing_token, held.fencing_token);
        since(killed_at).must_be_below(secs(4) + millis(200), "lost after the majority died");

        quorum.members[0].restart_on_same_port().await;
        eventually("it serves again", || async {
            let mut client = client.clone();
            let tried = client.try_acquire("other", "x", secs(5)).await;
            tried.is_ok_and(|tried| tried.acquired)
        })
        .await;
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn mission_20_a_frozen_member_does_not_hold_others_up() {
    judged_by_time(async || {
        let quorum = Quorum::start(5).await;
        let coordinator = quorum.coordinator(&quorum.settings()).await;
        let mut client = coordinator.client().await;
        let mut session = open_with_lease(&mut client, secs(10)).await;
        quorum.members[1].stop();

        let begun = Instant::now();
        let first = session.acquire("first").await;
        let took = begun.elapsed();
        assert!(took >= MEMBER_TIMEOUT, "{took:?} does not wait for it");
        since(begun).must_be_below(secs(2), "an acquire that finds a member frozen");
        // The leases run from when they were asked for, less the drift that is allowed for.
        let valid_for = std_duration(first.valid_for);
        assert!(valid_for <= millis(10_000 - 250 - 102), "{valid_for:?}");
        assert!(valid_for + took + millis(150) > secs(10), "{valid_for:?}");

        let begun = Instant::now();
        for number in 0..20 {
            let name = format!("name-{number}");
            session.acquire(&name).await;
            assert!(session.release(&name).await.released);
        }
        // Otherwise each would wait for the frozen member.
        since(begun).must_be_below(
            20 * MEMBER_TIMEOUT,
            "20 times held while a member is frozen",
        );

        assert!(session.release("first").await.released);
        quorum.members[1].cont();
        // What reached the frozen member late is taken back there.
        quorum.until_count(&ALL, "first", 0).await;
        session.close().await.unwrap();
        for member in &quorum.members {
            expect_no_trace(member).await;
        }
        eventually("all members have a vote again", || async {
            let mut client = client.clone();
            let name = "again";
            client.try_acquire(name, "x", millis(500)).await.unwrap();
            quorum.count_of(&ALL, name).await == 5
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn mission_20_a_try_that_fails_is_undone_on_all_members_that_seemed_to_fail_too() {
    let quorum = Quorum::start(3).await;
    let coordinator = quorum.coordinator(&quorum.settings()).await;
    let mut client = coordinator.client().await;
    quorum.members[0].stop();
    quorum.members[1].stop();
    let refused = client
        .try_acquire("build", "x", secs(60))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused), "STORE_UNAVAILABLE");
    assert!(refused.message().contains("1 of 3"), "{refused}");
    assert_eq!(quorum.count_of(&[2], "build").await, 0);
    quorum.members[0].cont();
    quorum.members[1].cont();
    quorum.until_count(&[0, 1, 2], "build", 0).await;
    eventually("another can have it", || async {
        let mut client = client.clone();
        let tried = client.try_acquire("build", "y", secs(5)).await;
        tried.is_ok_and(|tried| tried.acquired)
    })
    .await;
}

#[tokio::test]
async fn a_waiter_at_another_coordinator_is_woken_by_the_members_that_are_left() {
    judged_by_time(async || {
        let mut quorum = Quorum::start(5).await;
        let settings = quorum.settings().with("store.poll_interval", "60s");
        let settings = settings.with("session.lease", "60s");
        let (a, b) = (
            quorum.coordinator(&settings).await,
            quorum.coordinator(&settings).await,
        );
        let mut holder = a.client().await.open().await;
        let held = holder.acquire("build").await;
        quorum.members[2].kill();
        quorum.members[4].kill();
        let waiter = timed_wait(&mut b.client().await, "build").await;
        // A confirmation by each member, and an attempt.
        tokio::time::sleep(secs(1)).await;
        let (span, (granted, session)) = released_to(&mut holder, "build", waiter).await;
        span.must_be_below(PROMPT, "hand-over on three of five");
        assert!(granted.fencing_token > held.fencing_token);
        session.close().await.unwrap();
        holder.close().await.unwrap();
        quorum.until_count(&[0, 1, 3], "build", 0).await;
    })
    .await;
}

#[tokio::test]
async fn what_a_quorum_cannot_keep_honest_is_refused_by_name() {
    let quorum = Quorum::start(3).await;
    let coordinator = quorum.coordinator(&quorum.settings()).await;
    let mut client = coordinator.client().await;
    let fair = try_request("build", "x").in_mode(LockMode::Fair);
    let fair = client.try_with(fair).await.unwrap_err();
    let permits = Semaphore::new(&client, "build")
        .try_acquire("x", 1, secs(5))
        .await
        .unwrap_err();
    let mut latch = Latch::new(&client, "build");
    let request = pb::CountDownRequest::named("build").count_by(1);
    let latch = latch.api.count_down(request).await.unwrap_err();
    for (refused, what) in [
        (fair, "fair locks"),
        (permits, "semaphores"),
        (latch, "latches"),
    ] {
        assert_eq!(refused.code(), Code::Unimplemented, "{refused}");
        assert_eq!(reason(&refused), "UNSUPPORTED_BY_STORE");
        assert!(refused.message().contains(what), "{refused}");
    }
    coordinator
        .until_logged("fair locks, semaphores, latches")
        .await;
}

#[tokio::test]
async fn the_first_caller_waits_until_the_members_are_connected_to() {
    let quorum = Quorum::start(3).await;
    let proxies = join_all(quorum.members.iter().map(|it| TcpProxy::to(it.port()))).await;
    let urls: Vec<_> = proxies.iter().map(TcpProxy::url).collect();
    let settings = Settings::on_quorum(&urls.join(" ")).with("store.connect_timeout", "10s");
    let mut coordinator = Coordinator::start(&settings).await;
    let address = coordinator.address();
    coordinator.kill();
    proxies.iter().for_each(TcpProxy::cut);
    let slow_network = async {
        // Time itself is what is tested: connecting takes longer than an answer may.
        tokio::time::sleep(MEMBER_TIMEOUT * 3).await;
        proxies.iter().for_each(TcpProxy::heal);
    };
    let first_call = async {
        eventually("it listens again", || async {
            TcpStream::connect(address).await.is_ok()
        })
        .await;
        let mut client = client_at(address).await;
        client.try_acquire("build", "x", secs(60)).await
    };
    let ((), first, ()) = tokio::join!(
        coordinator.restart_on_same_address(),
        first_call,
        slow_network
    );
    assert!(first.expect("an answer of the members").acquired);
}

#[tokio::test]
async fn two_members_that_are_one_server_have_one_vote() {
    let (first, mut other) = tokio::join!(RedisServer::start(), RedisServer::start());
    let double = format!("redis://localhost:{}", first.port());
    let urls = [first.url(), double, other.url()].join(" ");
    let coordinator = Coordinator::start(&Settings::on_quorum(&urls)).await;
    coordinator.until_connected(3).await;
    let mut client = coordinator.client().await;
    let granted = client.try_acquire("build", "x", secs(60)).await.unwrap();
    assert!(
        granted.acquired,
        "the two that are left are a majority of three"
    );
    other.kill();
    let refused = client
        .try_acquire("other", "x", secs(60))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused), "STORE_UNAVAILABLE");
    // The operator is told once; each caller is told too.
    let problem = format!(
        "\"problem\":\"store 2 (redis://localhost:{0}) is the same server as store 1 \
         (redis://127.0.0.1:{0})",
        first.port()
    );
    assert!(refused.message().contains("1 of 3"), "{refused}");
    coordinator.until_logged(&problem).await;
    let log = coordinator.log();
    assert_eq!(log.matches(&problem).count(), 1, "{log}");
    assert_eq!(first.text(&["EXISTS", "other"]).await, "0");
}

#[tokio::test]
async fn a_member_that_comes_back_empty_counts_again_with_the_next_grant() {
    let mut quorum = Quorum::start(3).await;
    let coordinator = quorum.coordinator(&quorum.settings()).await;
    let mut session = coordinator.client().await.open().await;
    session.acquire("build").await;
    quorum.members[0].kill();
    quorum.members[0].restart_on_same_port().await;
    // Renewals do not make up for what a member has lost.
    tokio::time::sleep(secs(3)).await;
    assert_eq!(quorum.count_of(&[0, 1, 2], "build").await, 2);
    assert!(session.release("build").await.released);
    session.acquire("build").await;
    assert_eq!(quorum.count_of(&[0, 1, 2], "build").await, 3);

    // With two of three gone the grant is gone too, and that is told.
    for restarted in [0, 1] {
        quorum.members[restarted].kill();
        quorum.members[restarted].restart_on_same_port().await;
    }
    let (lost, _) = lost_after_risk(&mut session).await;
    assert_eq!(lost.grant.unwrap().name, "build");
}
