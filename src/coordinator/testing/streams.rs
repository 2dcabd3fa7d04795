//! Streams of sessions, and what a coordinator knows of the sessions that they serve.

use lockkeeper_access::{Account, Identity};
use lockkeeper_store::{host::Replicas, script::Mode};
use tokio::sync::mpsc;

use super::{
    MILLI, SECOND, acquire, config, granted, holders, in_session, name, open, settle, start,
};
use crate::{
    answer::Answer,
    config::Config,
    error::Error,
    operation::Operation,
    reply::Reply,
    session::PeerAddress,
    stream::Opened,
    types::{Lease, OnDisconnect, tests::limits},
};

#[tokio::test(start_paused = true)]
async fn a_stream_says_what_its_session_was_opened_with() {
    let coordinator = start(config());
    let lease = Lease::new(SECOND * 7, &limits()).unwrap();
    for (on_disconnect, keeps) in [(OnDisconnect::Keep, true), (OnDisconnect::Release, false)] {
        let account = Account::default();
        let opened = coordinator.open(account, Some(lease), "ci".to_owned(), on_disconnect);
        let stream = opened.unwrap().stream;
        assert_eq!(stream.lease(), SECOND * 7);
        assert_eq!(stream.keeps_grants(), keeps);
        assert_eq!(stream.resume_token_interval(), SECOND * 900);
        let owner = crate::types::Owner::in_session(stream.id().clone(), "", &limits()).unwrap();
        assert_eq!(coordinator.client_name(&owner), "ci");
        assert_eq!(coordinator.client_name(&super::owner("x")), "");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_stream_ends_its_session_or_leaves_it_to_be_resumed() {
    for (ends, expected) in [(true, 0), (false, 1)] {
        let coordinator = start(config());
        let opened = open(&coordinator);
        let request = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
        granted(&coordinator, &request).await.take().unwrap();
        let superseded = opened.stream.superseded().clone();
        assert!(!superseded.is_cancelled());
        let mut digest = opened.stream.id().digest();
        if ends {
            opened.stream.close().await;
            digest.clear();
        }
        drop(opened);
        settle().await;
        assert!(superseded.is_cancelled());
        assert_eq!(coordinator.load().sessions, expected);
        assert_eq!(holders(&coordinator.core, "a").await.len(), expected);
        let listed = coordinator.list_sessions(0, "").sessions;
        assert!(listed.iter().all(|it| it.digest == digest));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_renewal_asks_for_depends_on_the_grant() {
    let coordinator = start(config());
    let opened: Opened = open(&coordinator);
    let core = &coordinator.core;
    let session = &opened.stream.session;
    let own = in_session(&opened, "");
    let mut grant = granted(&coordinator, &acquire("a", Mode::Exclusive, &own))
        .await
        .take()
        .unwrap();
    let now = tokio::time::Instant::now();
    assert_eq!(
        core.holds_since(&name("a"), Some(Mode::Exclusive), &own),
        Some(now)
    );
    assert_eq!(
        core.holds_since(&name("b"), Some(Mode::Exclusive), &own),
        None
    );
    grant.lease = SECOND;
    let lease = |watched, has_session| {
        let grant = crate::types::Grant {
            watched,
            ..grant.clone()
        };
        let session = Some(session).filter(|_| has_session);
        core.lease_of_held(session, Some(&grant))
    };
    assert_eq!(lease(true, true), SECOND * 30);
    assert_eq!(lease(false, true), SECOND);
    assert_eq!(lease(true, false), SECOND);
    assert_eq!(core.lease_of_held(Some(session), None), SECOND * 30);
}

#[tokio::test(start_paused = true)]
async fn replicas_are_waited_for_if_the_configuration_or_the_request_says_so() {
    let replicas = |at_least| Replicas {
        at_least,
        all: false,
    };
    // Of the configuration, of the request, and in force.
    let rows = [
        (None, 0, None),
        (None, 1, Some(1)),
        (Some(2), 0, Some(2)),
        (Some(2), 3, Some(3)),
    ];
    for (configured, asked, expected) in rows {
        let coordinator = start(Config {
            replica_acks: configured.map(replicas),
            ..config()
        });
        let core = &coordinator.core;
        let in_force = core.replicas(asked).map(|it| it.at_least);
        assert_eq!(in_force, expected);
        assert_eq!(core.waits_for_replicas(asked), expected.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_drains_admits_no_wait() {
    let coordinator = start(config());
    assert_eq!(coordinator.core.check_serving(), Ok(()));
    coordinator.drain(SECOND).await;
    assert_eq!(coordinator.core.check_serving(), Err(Error::Draining));
}

#[tokio::test(start_paused = true)]
async fn a_head_looks_again_at_the_end_of_the_lease_or_after_a_jittered_interval() {
    let coordinator = start(config());
    let now = tokio::time::Instant::now();
    let mut polls = Vec::new();
    for _ in 0..100 {
        let poll = coordinator.core.check_at(None) - now;
        assert!(poll >= MILLI * 800 && poll < MILLI * 1200, "{poll:?}");
        polls.push(poll);
        let far = coordinator.core.check_at(Some(now + SECOND * 9)) - now;
        assert!(far >= MILLI * 800 && far < MILLI * 1200, "{far:?}");
        let soon = coordinator.core.check_at(Some(now + MILLI * 100)) - now;
        assert!(soon > MILLI * 100 && soon < MILLI * 200, "{soon:?}");
    }
    assert!(polls.iter().min() < Some(&(MILLI * 900)));
    assert!(polls.iter().max() > Some(&(MILLI * 1100)));
}

#[tokio::test(start_paused = true)]
async fn the_ends_of_sessions_are_remembered_for_each_identity_under_the_prefix() {
    let coordinator = start(Config {
        limits: crate::types::Limits {
            key_prefix: "app:".into(),
            ..limits()
        },
        ..config()
    });
    let groups = ["ci", "cd"].map(|name| coordinator.core.group(&Identity::named(name)));
    assert!(groups.iter().all(|group| group.starts_with("app:")));
    assert_ne!(groups[0], groups[1]);
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_is_submitted_is_answered_and_counted() {
    let coordinator = start(config());
    let (to, mut answers) = mpsc::channel(4);
    let reply = Reply {
        op_id: 3,
        to: to.into(),
        cancel: None,
        slot: None,
        account: Account::default(),
    };
    let request = acquire("a", Mode::Exclusive, &super::owner("x"));
    coordinator.submit(Operation::Acquire(request), reply);
    let (op_id, answer) = answers.recv().await.unwrap();
    assert_eq!(op_id, 3);
    assert!(matches!(*answer, Answer::Granted(_)), "{answer:?}");
    assert!(answers.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_session_shows_where_its_stream_comes_from() {
    let coordinator = start(config());
    let opened = open(&coordinator);
    let peer = PeerAddress::Tcp("127.0.0.1:7".parse().unwrap());
    opened.stream.comes_from(peer);
    let seen = coordinator.list_sessions(0, "").sessions;
    assert_eq!(seen[0].peer, Some(peer));
}
