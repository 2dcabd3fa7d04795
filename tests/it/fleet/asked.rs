//! What every coordinator of a fleet can say of all.

use lockkeeper_api::pb;

use super::{admin, coordinators_of, options, sessions_of, world_of};
use crate::support::World;

#[tokio::test(start_paused = true)]
async fn each_lists_all_coordinators_and_what_they_have() {
    let world = world_of(3).await;
    let mut clients = Vec::new();
    for node in [1, 1, 2] {
        let mut client = world.client(node).await;
        let session = client.open().await;
        clients.push((client, session));
    }
    for node in 0..3 {
        let listed = coordinators_of(&admin(&world, node).await).await;
        let mut shown: Vec<_> = listed
            .coordinators
            .iter()
            .map(|it| (it.coordinator.as_str(), it.session_count))
            .collect();
        assert_eq!(
            shown[0].0,
            format!("http://node:{node}"),
            "the queried one first"
        );
        shown.sort_unstable();
        let expected = [
            ("http://node:0", 0),
            ("http://node:1", 2),
            ("http://node:2", 1),
        ];
        assert_eq!(shown, expected, "asked at {node}");
        assert_eq!(listed.unasked, []);
        let one = &listed.coordinators[1];
        assert_eq!(
            (one.version.as_str(), one.not_ready_reason.as_str()),
            (env!("CARGO_PKG_VERSION"), "")
        );
    }
    let request = pb::ListCoordinatorsRequest { fleet: false };
    let alone = admin(&world, 0)
        .await
        .list_coordinators(request)
        .await
        .unwrap();
    assert_eq!(alone.into_inner().coordinators.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_sessions_of_all_are_listed_by_their_digests_page_by_page() {
    let world = world_of(3).await;
    let mut clients = Vec::new();
    for node in [0, 1, 1, 1, 2, 2] {
        let mut client = world.client(node).await;
        let session = client.open().await;
        clients.push((client, session));
    }
    let mut admin = admin(&world, 0).await;
    let whole = sessions_of(&admin).await;
    let digests = |page: &pb::ListSessionsResponse| -> Vec<String> {
        let sessions = page.sessions.iter();
        sessions.map(|it| it.session_digest.clone()).collect()
    };
    assert_eq!((whole.session_count, whole.sessions.len()), (6, 6));
    assert!(digests(&whole).is_sorted());
    let at = |node: &str| {
        let name = format!("http://node:{node}");
        whole
            .sessions
            .iter()
            .filter(|it| it.coordinator == name)
            .count()
    };
    assert_eq!([at("0"), at("1"), at("2")], [1, 3, 2]);
    let mut request = pb::ListSessionsRequest {
        page_size: 1,
        fleet: true,
        ..Default::default()
    };
    let mut all = Vec::new();
    loop {
        let page = admin
            .list_sessions(request.clone())
            .await
            .unwrap()
            .into_inner();
        assert!(page.sessions.len() <= 3, "one of each coordinator");
        all.extend(digests(&page));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(all, digests(&whole));
    request = pb::ListSessionsRequest::default();
    let here = admin.list_sessions(request).await.unwrap().into_inner();
    assert_eq!(
        (here.session_count, here.sessions[0].coordinator.as_str()),
        (1, "")
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_is_passed_on_once() {
    let (faults, world) = World::faulty_with(&options(3));
    super::until_known(&world, 3).await;
    let admin = admin(&world, 0).await;
    let before = faults.calls("fleet_announce");
    let listed = sessions_of(&admin).await;
    assert_eq!(listed.unasked, []);
    // Each coordinator that asks others looks for them.
    assert_eq!(faults.calls("fleet_announce") - before, 1);
    let connections: Vec<_> = (0..3).map(|node| world.roads.connections(node)).collect();
    assert_eq!(connections, [0, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn coordinators_of_a_quorum_know_each_other() {
    let options = crate::support::Options {
        stores: 3,
        ..options(2)
    };
    let world = World::with(&options);
    super::until_known(&world, 2).await;
    let listed = coordinators_of(&admin(&world, 1).await).await;
    assert_eq!((listed.coordinators.len(), listed.unasked), (2, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn the_waiters_of_all_coordinators_are_counted() {
    let world = world_of(2).await;
    let mut holder = world.client(0).await.open().await;
    holder.acquire("plain").await;
    holder.take_in("fair", pb::LockMode::Fair).await;
    let mut waiting = Vec::new();
    for node in [0, 1, 1] {
        let mut session = world.client(node).await.open().await;
        session.wait_in("plain", pb::LockMode::Exclusive).await;
        session.wait_in("fair", pb::LockMode::Fair).await;
        waiting.push(session);
    }
    let mut admin = admin(&world, 0).await;
    let mut counted = async |fleet| {
        let request = pb::ListLocksRequest {
            fleet,
            ..Default::default()
        };
        let listed = admin.list_locks(request).await.unwrap().into_inner();
        assert_eq!(listed.unasked, []);
        let locks = listed.locks.into_iter();
        let mut locks: Vec<_> = locks.map(|it| (it.name, it.waiter_count)).collect();
        locks.sort();
        locks
    };
    let both = |fair, plain| vec![("fair".to_owned(), fair), ("plain".to_owned(), plain)];
    assert_eq!(counted(false).await, both(3, 1));
    assert_eq!(counted(true).await, both(3, 3));
}
