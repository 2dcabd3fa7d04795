//! Sessions that an operator ends: what their clients receive, and that they cannot be resumed.

use lockkeeper_access::{Quotas, Right};
use lockkeeper_api::pb::lock_admin_service_client::LockAdminServiceClient;
use lockkeeper_coordinator::{Reason, SessionsOf};
use tonic::transport::Channel;

use super::admin;
use crate::access::{access, rule};
use crate::support::prelude::*;

async fn end(
    client: &mut LockAdminServiceClient<Channel>,
    session_digest: &str,
    identity: &str,
) -> Result<pb::EndSessionResponse, Status> {
    let request = pb::EndSessionRequest {
        session_digest: session_digest.to_owned(),
        identity: identity.to_owned(),
        reason: "it hangs".to_owned(),
        fleet: false,
    };
    Ok(client.end_session(request).await?.into_inner())
}

/// The digests of all sessions of the identity.
async fn digests(client: &mut LockAdminServiceClient<Channel>, identity: &str) -> Vec<String> {
    let listed = client.list_sessions(pb::ListSessionsRequest::default());
    let sessions = listed.await.unwrap().into_inner().sessions;
    let own = sessions.into_iter().filter(|it| it.identity == identity);
    own.map(|session| session.session_digest).collect()
}

/// The session receives the loss, and then its end.
async fn expect_end(mut session: Session) {
    let lost = session.expect_lost().await;
    assert_eq!(lost.reason(), LostReason::ForceReleased);
    assert_eq!(lost.detail, "it hangs");
    let ended = session.read_to_end().await.unwrap_err();
    expect_status(&ended, Code::Aborted, "SESSION_ENDED");
    assert!(ended.message().contains("it hangs"), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn an_ended_session_is_told_loses_its_locks_and_comes_back_nowhere() {
    let (world, mut client, mut other) = World::two_with_clients().await;
    let mut session = client.open().await;
    let grant = session.acquire("a").await;
    let mut waiting = other.open().await;
    let op_id = waiting.waits_for("a", "").await;
    let mut admin = admin(&client);
    let digest = digests(&mut admin, "").await.remove(0);
    let ended = end(&mut admin, &digest, "").await.unwrap();
    assert_eq!((ended.session_count, ended.grant_count), (1, 1));
    waiting.expect_granted(op_id).await;
    let opened = session.opened.clone();
    expect_end(session).await;
    for client in [&mut client, &mut other] {
        let refused = client.resume(&opened, vec![grant.clone()]).await;
        expect_refused(refused, Code::NotFound, "SESSION_NOT_FOUND");
    }
    let again = end(&mut admin, &digest, "").await.unwrap_err();
    expect_status(&again, Code::NotFound, "SESSION_NOT_FOUND");
    waiting.close().await.unwrap();
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_means_no_session_is_refused_by_its_field() {
    let world = World::new();
    let mut admin = admin(&world.client(0).await);
    for (digest, identity, field) in [("", "", "SESSION_DIGEST"), ("x", "y", "IDENTITY")] {
        let refused = end(&mut admin, digest, identity).await.unwrap_err();
        assert_eq!(reason(&refused), format!("INVALID_{field}"));
    }
    let nobody = end(&mut admin, "", "nobody").await.unwrap();
    assert_eq!(nobody.session_count, 0);
    let request = pb::EndSessionRequest {
        identity: "nobody".to_owned(),
        ..Default::default()
    };
    assert_eq!(refusal(admin.end_session(request).await), "INVALID_REASON");
}

#[tokio::test(start_paused = true)]
async fn an_admin_of_a_prefix_ends_sessions_that_hold_nothing_else() {
    let own = [Right::Acquire, Right::Release];
    let world = World::with(&Options::with(|it| {
        it.access = access(
            vec![
                rule("alice", "", &own),
                rule("team", "a/", &[Right::Admin]),
                rule("root", "", &[Right::Admin]),
            ],
            Quotas::default(),
        );
    }));
    let mut alice = world.client_as(0, "alice").await;
    let mut session = alice.open().await;
    let mut root = admin(&world.client_as(0, "root").await);
    let mut team = admin(&world.client_as(0, "team").await);
    let digest = digests(&mut root, "alice").await.remove(0);
    let refused = |answer: Result<pb::EndSessionResponse, Status>| {
        expect_refused(answer, Code::PermissionDenied, "PERMISSION_DENIED");
    };
    // It holds nothing; one that is not there looks the same.
    refused(end(&mut team, &digest, "").await);
    refused(end(&mut team, "0123456789abcdef", "").await);
    refused(end(&mut team, "", "nobody").await);
    session.acquire("b/1").await;
    session.acquire("a/1").await;
    refused(end(&mut team, &digest, "").await);
    session.release("b/1").await;
    let op_id = session.send_acquire("b/2", "");
    session.expect_granted(op_id).await;
    refused(end(&mut team, "", "alice").await);
    session.release("b/2").await;
    let mut elsewhere = alice.open().await;
    elsewhere.acquire("b/3").await;
    refused(end(&mut team, "", "alice").await);
    assert_eq!(end(&mut team, &digest, "").await.unwrap().grant_count, 1);
    expect_end(session).await;
    let ended = end(&mut root, "", "alice").await.unwrap();
    assert_eq!((ended.session_count, ended.grant_count), (1, 1));
    expect_end(elsewhere).await;
    // Who still has credentials begins anew.
    let mut again = alice.open().await;
    assert_eq!(again.acquire("a/1").await.hold_count, 1);
}

#[tokio::test(start_paused = true)]
async fn no_session_goes_on_while_the_store_answers_for_another() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    let mut sessions = Vec::new();
    for name in ["a", "b", "c"] {
        let mut session = client.open().await;
        session.acquire(name).await;
        sessions.push(session);
    }
    let coordinator = world.coordinator(0);
    let meant = coordinator.sessions_of(&SessionsOf::Identity(String::new()));
    let reason = Reason::parse("it hangs").unwrap();
    faults.freeze();
    let begun = Instant::now();
    let told = async {
        for session in sessions {
            expect_end(session).await;
        }
        assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
        faults.thaw();
    };
    let (ended, ()) = tokio::join!(coordinator.end_sessions(meant, &reason), told);
    assert_eq!((ended.sessions, ended.grants), (3, 3));
    world.expect_nothing_left(&["a", "b", "c"]).await;
}
