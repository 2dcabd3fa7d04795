//! Elections: one leader at a time, and observers of any coordinator see every term in order.

use lockkeeper_api::pb::{
    campaign_response::Event, election_service_client::ElectionServiceClient,
    observe_response::Event as Seen,
};
use lockkeeper_testkit::client::Caller;
use tonic::Streaming;

use crate::support::prelude::*;

const NAME: &str = "workers";

struct Election(ElectionServiceClient<Caller>);

struct Observer(Streaming<pb::ObserveResponse>);

impl Election {
    fn of(client: &Client) -> Self {
        Self(ElectionServiceClient::new(client.caller()))
    }

    async fn campaign(
        &mut self,
        session: &Session,
        value: &str,
    ) -> Result<Streaming<pb::CampaignResponse>, Status> {
        let request = pb::CampaignRequest::named(NAME)
            .of_session(session.id())
            .value(value);
        Ok(self.0.campaign(request).await?.into_inner())
    }

    /// Campaigns and is elected; returns the term.
    async fn lead(&mut self, session: &Session, value: &str) -> u64 {
        let mut events = self.campaign(session, value).await.unwrap();
        elected(&mut events).await
    }

    async fn proclaim(&mut self, session: &Session, term: u64, value: &str) -> Result<u64, Status> {
        let request = pb::ProclaimRequest {
            name: NAME.to_owned(),
            session_id: session.id(),
            owner: String::new(),
            term,
            value: value.to_owned(),
        };
        Ok(self.0.proclaim(request).await?.into_inner().revision)
    }

    async fn resign(&mut self, session: &Session) -> Result<pb::ResignResponse, Status> {
        let request = pb::ResignRequest::named(NAME).of_session(session.id());
        Ok(self.0.resign(request).await?.into_inner())
    }

    async fn leader(&mut self) -> pb::LeaderResponse {
        let name = NAME.to_owned();
        let leader = self.0.leader(pb::LeaderRequest::named(name)).await;
        leader.unwrap().into_inner()
    }

    async fn observe_after(&mut self, after_revision: u64) -> Observer {
        let request = pb::ObserveRequest {
            name: NAME.to_owned(),
            after_revision,
        };
        Observer(self.0.observe(request).await.unwrap().into_inner())
    }

    async fn observe(&mut self) -> Observer {
        self.observe_after(0).await
    }
}

impl Observer {
    async fn next(&mut self) -> Seen {
        let next = self.0.message().await.unwrap();
        next.and_then(|it| it.event).expect("it goes on")
    }

    async fn expect_leader(&mut self, term: u64, value: &str) -> u64 {
        match self.next().await {
            Seen::Leader(it) if it.term == term && it.value == value => it.revision,
            other => panic!("expected {term} {value}, got {other:?}"),
        }
    }

    async fn expect_no_leader(&mut self) {
        let next = self.next().await;
        assert!(matches!(next, Seen::NoLeader(_)), "{next:?}");
    }
}

async fn elected(events: &mut Streaming<pb::CampaignResponse>) -> u64 {
    loop {
        let next = events.message().await.unwrap().and_then(|it| it.event);
        match next.expect("a last answer") {
            Event::Waiting(_) => {}
            Event::Elected(it) => return it.grant.unwrap().fencing_token,
            Event::NotElected(it) => panic!("{it:?}"),
        }
    }
}

async fn expect_waiting(events: &mut Streaming<pb::CampaignResponse>) {
    let next = events.message().await.unwrap().and_then(|it| it.event);
    assert!(matches!(next, Some(Event::Waiting(_))), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn the_next_candidate_leads_when_the_leader_resigns_or_is_gone() {
    let world = World::of(2);
    let mut clients = [world.client(0).await, world.client(1).await];
    let named = pb::OpenSession::default().called("app-1");
    let first = clients[0].open_with(named).await.unwrap();
    let second = clients[1].open().await;
    let [mut here, mut there] = [Election::of(&clients[0]), Election::of(&clients[1])];
    assert_eq!(here.leader().await, pb::LeaderResponse::default());
    let mut observer = there.observe().await;
    observer.expect_no_leader().await;

    let term = here.lead(&first, "a:1").await;
    observer.expect_leader(term, "a:1").await;
    let leader = there.leader().await;
    assert!(leader.remaining_lease.is_some_and(|it| it.seconds >= 29));
    let leader = leader.leader.unwrap();
    assert_eq!((leader.term, leader.value.as_str()), (term, "a:1"));
    assert_eq!(
        (leader.owner.as_str(), leader.client_name.as_str()),
        ("0", "app-1")
    );
    assert_eq!(leader.session_digest.len(), 16);

    let mut waits = there.campaign(&second, "b:1").await.unwrap();
    expect_waiting(&mut waits).await;
    let resigned_at = Instant::now();
    let resigned = here.resign(&first).await.unwrap();
    assert!(resigned.resigned && resigned.hold_count == 0);
    let next = elected(&mut waits).await;
    assert!(next > term && resigned_at.elapsed() < millis(50));
    observer.expect_leader(next, "b:1").await;

    let mut waits = here.campaign(&first, "a:2").await.unwrap();
    expect_waiting(&mut waits).await;
    let gone_at = Instant::now();
    clients[1].cut();
    let third = elected(&mut waits).await;
    assert!(
        third > next && gone_at.elapsed() <= secs(31),
        "its lease, at most"
    );
    // The connection of the observer was cut too; it goes on after what it has seen.
    let mut other = Election::of(&world.client(1).await);
    other.observe().await.expect_leader(third, "a:2").await;
    first.close().await.unwrap();
    world.expect_nothing_left(&[NAME]).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_proclaims_and_only_in_its_term() {
    let (world, mut client) = World::with_client().await;
    let (leader, other) = (client.open().await, client.open().await);
    let mut election = Election::of(&client);
    let refused = election.proclaim(&leader, 1, "x").await.unwrap_err();
    expect_status(&refused, Code::FailedPrecondition, "NOT_OWNER");
    let term = election.lead(&leader, "one").await;
    let refused = election.proclaim(&other, term, "stolen").await;
    expect_refused(refused, Code::FailedPrecondition, "NOT_OWNER");
    let revision = election.proclaim(&leader, term, "two").await.unwrap();
    let again = election.proclaim(&leader, term, "two").await.unwrap();
    assert_eq!(revision, again, "a repeat changes nothing");
    election.resign(&leader).await.unwrap();
    let refused = election.resign(&leader).await.unwrap_err();
    expect_status(&refused, Code::FailedPrecondition, "NOT_OWNER");
    let next = election.lead(&leader, "three").await;
    let refused = election.proclaim(&leader, term, "late").await.unwrap_err();
    expect_status(&refused, Code::FailedPrecondition, "NOT_OWNER");
    let seen = election.leader().await.leader.unwrap();
    assert_eq!((seen.term, seen.value.as_str()), (next, "three"));
    // To Redisson, and to other callers that acquire the lock, it is a held lock.
    assert_eq!(world.redis(&["TYPE", NAME]), Value::Bytes("hash".into()));
    assert!(!client.gets_for(NAME, "x", secs(5)).await);
    // A session that ends takes its leadership along.
    leader.close().await.unwrap();
    assert_eq!(election.leader().await.leader, None);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_candidate_or_no_value_is_refused() {
    let (_world, mut client, session) = World::with_session().await;
    let mut election = Election::of(&client);
    let none = pb::CampaignRequest::named(NAME);
    let refused = election.0.campaign(none).await.unwrap_err();
    expect_status(&refused, Code::InvalidArgument, "INVALID_SESSION_ID");
    for value in ["x".repeat(1025), "two\nlines".to_owned()] {
        let refused = election.campaign(&session, &value).await.unwrap_err();
        assert_eq!(reason(&refused), "INVALID_VALUE");
    }
    let term = election.lead(&session, &"x".repeat(1024)).await;
    let refused = election.proclaim(&session, term, "\u{0}").await;
    assert_eq!(refusal(refused), "INVALID_VALUE");
    let other = client.open().await;
    let timed = pb::CampaignRequest::named(NAME)
        .of_session(other.id())
        .within(millis(500));
    let mut events = election.0.campaign(timed).await.unwrap().into_inner();
    expect_waiting(&mut events).await;
    let ended = events.message().await.unwrap().and_then(|it| it.event);
    let ended = expect!(ended, Some(Event::NotElected(ended)) => ended);
    assert_eq!(ended.reason(), pb::NotGrantedReason::WaitTimeout);
}

#[tokio::test(start_paused = true)]
async fn an_observer_elsewhere_sees_every_term_in_order_also_quick_ones() {
    let (world, mut client, elsewhere) = World::two_with_clients().await;
    let session = client.open().await;
    let (mut here, mut there) = (Election::of(&client), Election::of(&elsewhere));
    let mut observer = there.observe().await;
    observer.expect_no_leader().await;
    world.until_listening(&keys::election(NAME), 1).await;
    let mut terms = Vec::new();
    for number in 0..10 {
        let term = here.lead(&session, &format!("value {number}")).await;
        terms.push(term);
        if number < 9 {
            here.resign(&session).await.unwrap();
        }
    }
    assert!(terms.is_sorted_by(|one, next| one < next));
    let mut seen = Vec::new();
    let mut revision = 0;
    while seen.len() < 10 {
        match observer.next().await {
            Seen::Leader(it) => {
                assert_eq!(it.value, format!("value {}", seen.len()));
                seen.push(it.term);
                revision = it.revision;
            }
            Seen::NoLeader(_) => {}
            Seen::Missed(_) => panic!("nothing was missed"),
        }
    }
    assert_eq!(seen, terms);
    // Another observer, on another coordinator, goes on where this one was.
    drop(observer);
    let mut later = here.observe_after(revision - 2).await;
    later.expect_leader(terms[8], "value 8").await;
    later.expect_leader(terms[9], "value 9").await;
    here.resign(&session).await.unwrap();
    later.expect_no_leader().await;
    // The store keeps 64 values: what came before them is missed, and told.
    let mut late = here.observe_after(revision - 9).await;
    let term = here.lead(&session, "again").await;
    for number in 0..70 {
        let value = number.to_string();
        here.proclaim(&session, term, &value).await.unwrap();
    }
    let mut forgotten = there.observe_after(revision).await;
    let missed = forgotten.next().await;
    assert!(matches!(missed, Seen::Missed(_)), "{missed:?}");
    forgotten.expect_leader(term, "6").await;
    late.expect_leader(terms[1], "value 1").await;
    drop((late, later, forgotten));
    session.close().await.unwrap();
    world.until_listening(&keys::election(NAME), 0).await;
    world.expect_nothing_left(&[NAME]).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_lease_is_noticed_and_a_drain_ends_the_stream() {
    let (world, mut client, elsewhere) = World::two_with_clients().await;
    let session = client.open().await;
    let (mut here, mut there) = (Election::of(&client), Election::of(&elsewhere));
    let term = here.lead(&session, "x").await;
    let mut observer = there.observe().await;
    let revision = observer.expect_leader(term, "x").await;
    // As if its lease had ended: no message, and no next leader.
    let begun = Instant::now();
    world.redis(&["DEL", NAME]);
    observer.expect_no_leader().await;
    assert!(begun.elapsed() < millis(1300), "a poll interval");
    world.coordinator(1).drain(secs(1)).await;
    assert_eq!(refusal(observer.0.message().await), "DRAINING");
    let mut goes_on = here.observe_after(revision).await;
    goes_on.expect_no_leader().await;
}

#[tokio::test(start_paused = true)]
async fn elections_on_a_sessions_stream() {
    let (world, _client, mut session) = World::with_session().await;
    let campaign = pb::CampaignRequest::named(NAME).value("one");
    let op_id = session.send(Request::Campaign(campaign));
    let elected = expect!(session.end(op_id).await, Response::Elected);
    let grant = elected.grant.unwrap();
    assert!(grant.watched && grant.mode() == pb::LockMode::Fair);
    let proclaim = pb::ProclaimRequest {
        name: NAME.to_owned(),
        term: grant.fencing_token,
        value: "two".to_owned(),
        ..Default::default()
    };
    let op_id = session.send(Request::Proclaim(proclaim));
    let proclaimed = session.end(op_id).await;
    let revision = elected.revision + 1;
    assert_eq!(
        proclaimed,
        Response::Proclaimed(pb::ProclaimResponse { revision })
    );
    let name = NAME.to_owned();
    let op_id = session.send(Request::Leader(pb::LeaderRequest::named(name)));
    let seen = expect!(session.end(op_id).await, Response::LeaderSeen);
    assert_eq!(seen.leader.unwrap().value, "two");
    let name = NAME.to_owned();
    let resign = pb::ResignRequest::named(name);
    let op_id = session.send(Request::Resign(resign));
    let resigned = session.end(op_id).await;
    assert!(matches!(resigned, Response::Resigned(it) if it.resigned));
    session.close().await.unwrap();
    world.expect_nothing_left(&[NAME]).await;
}

#[tokio::test(start_paused = true)]
async fn a_quorum_has_no_elections() {
    let world = World::over(1, 3);
    let mut client = world.client(0).await;
    let session = client.open().await;
    let mut election = Election::of(&client);
    let mut events = election.campaign(&session, "x").await.unwrap();
    let refused = events.message().await.unwrap_err();
    expect_status(&refused, Code::Unimplemented, "UNSUPPORTED_BY_STORE");
    assert!(refused.message().contains("elections"), "{refused}");
    let mut observer = election.observe().await;
    let refused = observer.0.message().await.unwrap_err();
    expect_status(&refused, Code::Unimplemented, "UNSUPPORTED_BY_STORE");
}
