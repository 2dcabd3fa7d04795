//! Locks that are handed over by a ticket.

use lockkeeper_client::Error;
use tonic_types::StatusExt as _;

use crate::support::prelude::*;

fn offer_of(session: &Session) -> pb::OfferRequest {
    pb::OfferRequest::named("a").of_session(session.id())
}

async fn offer(client: &mut Client, session: &Session) -> String {
    let offered = client.api.offer(offer_of(session)).await.unwrap();
    offered.into_inner().ticket
}

async fn claim(client: &mut Client, session: &Session, ticket: &str) -> Result<pb::Grant, Status> {
    let request = pb::ClaimRequest {
        name: "a".to_owned(),
        session_id: session.id(),
        ticket: ticket.to_owned(),
        ..pb::ClaimRequest::default()
    };
    let claimed = client.api.claim(request).await?.into_inner();
    Ok(claimed.grant.unwrap())
}

/// Why a ticket was refused.
#[track_caller]
fn state(refused: Result<pb::Grant, Status>) -> String {
    let refused = refused.unwrap_err();
    assert_eq!(reason(&refused), "TICKET_REFUSED", "{refused}");
    let info = refused.get_details_error_info().unwrap();
    info.metadata["state"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_claim_moves_the_lock_to_a_session_on_any_coordinator_and_fences_the_giver() {
    for node in [0, 1] {
        let world = World::of(2);
        let (mut client, mut other) = (world.client(0).await, world.client(node).await);
        let (mut giver, mut claimer) = (client.open().await, other.open().await);
        let before = giver.acquire("a").await;
        let mut waiting = world.client(1).await.open().await;
        let op_id = waiting.send_acquire("a", "");
        world.until_waiting(1, 1).await;
        let ticket = offer(&mut client, &giver).await;
        tokio::time::sleep(secs(20)).await;
        let after = claim(&mut other, &claimer, &ticket).await.unwrap();
        assert!(after.fencing_token > before.fencing_token);
        assert_eq!((after.hold_count, after.watched), (1, true));
        assert!(std_duration(after.valid_for) > secs(29));
        let told = tokio::time::timeout(secs(1), giver.expect_lost()).await;
        let lost = told.unwrap();
        assert_eq!(lost.reason(), LostReason::HandedOver, "{node}");
        assert_eq!(lost.grant.unwrap().fencing_token, before.fencing_token);
        let op = giver.send_release("a", "");
        assert_eq!(giver.expect_failed(op).await, "NOT_OWNER");
        let checked = client.check_token("a", before.fencing_token).await;
        assert!(checked.held && !checked.current, "{checked:?}");
        // The watchdog of its coordinator renews it.
        tokio::time::sleep(secs(100)).await;
        assert!(claimer.release("a").await.released);
        let next = waiting.expect_granted(op_id).await;
        assert!(next.fencing_token > after.fencing_token);
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_claimers_at_the_same_time_one_has_the_lock() {
    let (_world, mut client, mut other) = World::two_with_clients().await;
    let (mut giver, one, two) = (client.open().await, client.open().await, other.open().await);
    giver.acquire("a").await;
    let ticket = offer(&mut client, &giver).await;
    let (first, second) = tokio::join!(
        claim(&mut client, &one, &ticket),
        claim(&mut other, &two, &ticket)
    );
    assert_ne!(first.is_ok(), second.is_ok(), "{first:?} {second:?}");
    let refused = if first.is_ok() { second } else { first };
    assert_eq!(state(refused), "over");
    assert_eq!(client.describe("a").await.holder_count, 1);
}

#[tokio::test(start_paused = true)]
async fn a_ticket_that_nobody_claims_leaves_all_as_it_was() {
    let (_world, mut client, mut other) = World::two_with_clients().await;
    let (mut giver, claimer) = (client.open().await, other.open().await);
    giver.acquire("a").await;
    let ticket = offer(&mut client, &giver).await;
    tokio::time::sleep(secs(31)).await;
    let refused = claim(&mut other, &claimer, &ticket).await;
    assert_eq!(state(refused), "expired");
    assert!(giver.release("a").await.released);
}

#[tokio::test(start_paused = true)]
async fn a_ticket_ends_with_its_grant() {
    let (_world, mut client, mut other) = World::two_with_clients().await;
    let (mut giver, claimer) = (client.open().await, other.open().await);
    giver.acquire("a").await;
    let ticket = offer(&mut client, &giver).await;
    giver.release("a").await;
    let free = claim(&mut other, &claimer, &ticket).await;
    assert_eq!(state(free), "over");
    giver.acquire("a").await;
    let again = claim(&mut other, &claimer, &ticket).await;
    assert_eq!(state(again), "over");
    assert!(giver.release("a").await.released);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_plain_grant_is_not_handed_over() {
    let (_world, mut client, mut other) = World::two_with_clients().await;
    let (mut giver, claimer) = (client.open().await, other.open().await);
    let nobodys = client.api.offer(offer_of(&giver)).await.unwrap_err();
    assert_eq!(reason(&nobodys), "NOT_OWNER");
    giver.acquire("a").await;
    let ticket = offer(&mut client, &giver).await;
    assert_eq!(state(claim(&mut client, &giver, &ticket).await), "unfit");
    giver.acquire("a").await;
    let refused = claim(&mut other, &claimer, &ticket).await;
    assert_eq!(state(refused), "unfit", "two holds");
    let twice = client.api.offer(offer_of(&giver)).await.unwrap_err();
    assert_eq!(reason(&twice), "TICKET_REFUSED");
    giver.release("a").await;
    assert!(giver.release("a").await.released, "it stayed the giver's");
    giver
        .granted(acquire_request("a", "").in_mode(LockMode::Fair))
        .await;
    let fair = client.api.offer(offer_of(&giver)).await.unwrap_err();
    assert_eq!(reason(&fair), "TICKET_REFUSED");
    giver.release("a").await;
    let least = acquire_request("a", "").hold_at_least(secs(1));
    let delayed = acquire_request("a", "").lock_delay(secs(1));
    for request in [least, delayed] {
        giver.granted(request.clone()).await;
        let ticket = offer(&mut client, &giver).await;
        let refused = claim(&mut other, &claimer, &ticket).await;
        assert_eq!(state(refused), "unfit", "{request:?}");
        tokio::time::sleep(secs(2)).await;
        assert!(giver.release("a").await.released);
    }
}

#[tokio::test(start_paused = true)]
async fn bad_requests_are_refused_by_name() {
    let world = World::of(2);
    let mut client = world.client(0).await;
    let (mut giver, claimer) = (client.open().await, client.open().await);
    giver.acquire("a").await;
    for (within, expected) in [(0, "INVALID_WITHIN"), (601, "INVALID_WITHIN")] {
        let request = pb::OfferRequest {
            within: Some(proto(Duration::from_secs(within))),
            ..offer_of(&giver)
        };
        assert_eq!(refusal(client.api.offer(request).await), expected);
    }
    let sessionless = offer_of(&giver).of_session("");
    let refused = client.api.offer(sessionless).await.unwrap_err();
    assert_eq!(reason(&refused), "INVALID_SESSION_ID");
    let ticket = offer(&mut client, &giver).await;
    let of_another_lock = pb::ClaimRequest {
        name: "b".to_owned(),
        session_id: claimer.id(),
        ticket,
        ..pb::ClaimRequest::default()
    };
    let refused = client.api.claim(of_another_lock).await.unwrap_err();
    assert_eq!(reason(&refused), "TICKET_REFUSED");
    assert_eq!(state(claim(&mut client, &claimer, "x").await), "invalid");
    let quorum = World::over(2, 3);
    let mut client = quorum.client(0).await;
    let mut giver = client.open().await;
    giver.acquire("a").await;
    let refused = client.api.offer(offer_of(&giver)).await.unwrap_err();
    assert_eq!(reason(&refused), "UNSUPPORTED_BY_STORE");
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_an_answer_of_the_store_ends_with_the_lock_free() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    let (mut giver, claimer) = (client.open().await, client.open().await);
    giver.acquire("a").await;
    let ticket = offer(&mut client, &giver).await;
    faults.lose_answers("lock_hand_on", 1);
    let unknown = claim(&mut client, &claimer, &ticket).await.unwrap_err();
    assert_eq!(reason(&unknown), "OUTCOME_UNKNOWN");
    eventually("the lock is free", || async {
        let mut client = world.client(0).await;
        client.describe("a").await.holder_count == 0
    })
    .await;
    assert_eq!(state(claim(&mut client, &claimer, &ticket).await), "over");
    giver.expect_lost().await;
}

#[tokio::test(start_paused = true)]
async fn a_giver_that_the_message_does_not_reach_learns_of_it_when_it_resumes() {
    let (_world, mut client, mut other) = World::two_with_clients().await;
    let (mut giver, claimer) = (client.open().await, other.open().await);
    let grant = giver.acquire("a").await;
    let ticket = offer(&mut client, &giver).await;
    client.cut();
    claim(&mut other, &claimer, &ticket).await.unwrap();
    let mut resumed = other.resume(&giver.opened, vec![grant]).await.unwrap();
    let lost = resumed.expect_lost().await;
    assert_eq!(lost.reason(), LostReason::TakenOver);
}

#[tokio::test(start_paused = true)]
async fn guards_of_the_client_are_handed_over() {
    let world = World::of(2);
    let network = world.network();
    let (giver, claimer) = (network.client(&[0]), network.client(&[1]));
    let giver = giver.session().open().await.unwrap();
    let claimer = claimer.session().open().await.unwrap();
    let guard = giver.lock("a").acquire().await.unwrap();
    let ticket = guard.offer(None).await.unwrap();
    let taken = claimer.claim("a", &ticket).await.unwrap();
    assert!(taken.fencing_token() > guard.fencing_token());
    guard.lost().cancelled().await;
    let loss = guard.loss().unwrap();
    assert!(
        matches!(&loss, Error::Lost { name, reason: LostReason::HandedOver, .. } if name == "a"),
        "{loss}"
    );
    drop(guard);
    let refused = claimer.claim("a", ticket).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
    tokio::time::sleep(secs(60)).await;
    assert!(taken.loss().is_none());
    taken.release().await.unwrap();
    let several = giver.locks(["a", "b"]).acquire().await.unwrap();
    let refused = several.offer(secs(5)).await.unwrap_err();
    assert!(matches!(refused, Error::Misconfigured(_)), "{refused}");
}
