//! When a grant is renewed, and what its holder hears if that fails.

use std::time::Duration;

use lockkeeper_store::script::Mode;
use tokio::time::Instant;

use super::{LEASE, MILLI, RENEWED_AFTER, SECOND, Table};
use crate::{
    metrics::families::SessionTally,
    session::watched::{LeaseRenewal, Renewing},
    types::{Grant, GrantKey, LostReason},
};

fn unwatched(grant: Grant, lease: Duration) -> Grant {
    Grant {
        watched: false,
        lease,
        safe_until: Instant::now() + lease,
        ..grant
    }
}

impl Table {
    /// The renewal that is due now, if one is.
    fn on_due(&self, key: &GrantKey) -> Option<Renewing> {
        self.on_due_at(key, Instant::now())
    }

    /// Passes time until the grant is due, and begins its renewal.
    async fn renews(&self) -> Renewing {
        let (_, key) = self.until_due().await;
        self.on_due(&key.unwrap()).unwrap()
    }

    /// The answer to a renewal that was sent just now.
    fn answered(&self, renewing: &Renewing, outcome: Option<Result<Duration, LostReason>>) {
        let now = Instant::now();
        let session = &self.session;
        session.on_renewal(&self.deadlines, renewing, now, outcome);
    }

    fn safe_for(&self, key: &GrantKey) -> Duration {
        let until = self.session.grant(key).unwrap().safe_until;
        until.saturating_duration_since(Instant::now())
    }

    fn at_risk(&self) -> usize {
        let mut tally = SessionTally::default();
        self.session.count_in(&mut tally);
        tally.at_risk
    }
}

/// A part of the lease that is certain, after a renewal.
fn relied_on(lease: Duration) -> Duration {
    (lease * 99 / 100).saturating_sub(MILLI * 2)
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_looked_at_after_a_third_of_its_lease_or_when_it_ends() {
    let hour = Duration::from_secs(3600);
    // The lease of the session, the mode, the lease of an unwatched grant, and after how long.
    let rows = [
        (LEASE, Mode::Exclusive, None, RENEWED_AFTER),
        (LEASE, Mode::Fair, None, RENEWED_AFTER),
        (LEASE, Mode::Write, None, RENEWED_AFTER),
        (LEASE, Mode::Read, None, RENEWED_AFTER),
        (hour, Mode::Exclusive, None, SECOND * 1188),
        // The watchdog of a Redisson reader may shorten it.
        (hour, Mode::Read, None, RENEWED_AFTER),
        (LEASE, Mode::Exclusive, Some(hour), hour),
        (LEASE, Mode::Read, Some(hour), SECOND * 5),
        (LEASE, Mode::Read, Some(SECOND * 2), SECOND * 2),
    ];
    for (lease, mode, own, expected) in rows {
        let table = Table::with_lease(lease);
        table.session.attach(&table.deadlines).unwrap();
        let grant = table.grant("a", mode, 1);
        let (grant, _) = table.take(own.map_or(grant.clone(), |own| unwatched(grant, own)));
        let due = table.until_due().await;
        assert_eq!(
            due,
            (expected, Some(GrantKey::of(&grant))),
            "{mode:?} {own:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_of_equal_leases_share_moments() {
    let table = Table::with_lease(SECOND * 300);
    let at = |sent_after: Duration, lease| {
        let sent_at = table.session.epoch + sent_after;
        table.session.renew_at(sent_at, lease) - table.session.epoch
    };
    let lease = SECOND * 300;
    for millis in [0, 1, 1500, 1999] {
        assert_eq!(at(MILLI * millis, lease), SECOND * 99);
    }
    assert_eq!(at(MILLI * 2000, lease), SECOND * 102);
    assert_eq!(at(MILLI * 7, MILLI * 30), MILLI * 17, "too short to share");
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_renewed_again_and_again_with_the_lease_of_its_session() {
    let (table, _stream) = Table::live();
    let key = table.hold("a");
    for _ in 0..3 {
        let (after, due) = table.until_due().await;
        let early = after <= SECOND * 10 && after > SECOND * 9;
        assert!(early && due.as_ref() == Some(&key), "{after:?}");
        let renewing = table.on_due(&key).unwrap();
        assert_eq!(renewing.due_at, Some(Instant::now()));
        let LeaseRenewal::Lock(renewal) = &renewing.renewal else {
            panic!("{renewing:?}")
        };
        assert_eq!((renewal.lease, renewal.mode), (LEASE, Mode::Exclusive));
        assert!(table.on_due(&key).is_none(), "one is under way");
        table.answered(&renewing, Some(Ok(LEASE)));
        assert_eq!(table.safe_for(&key), relied_on(LEASE));
        assert_eq!(table.deadlines.len(), 1);
    }
    assert_eq!(table.notice().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_reader_with_a_lease_of_its_own_is_only_looked_at_and_keeps_that_lease() {
    let (table, _stream) = Table::live();
    let own = SECOND * 60;
    let grant = unwatched(table.grant("a", Mode::Read, 1), own);
    let key = GrantKey::of(&table.take(grant).0);
    let renewing = table.renews().await;
    let LeaseRenewal::Lock(renewal) = &renewing.renewal else {
        panic!("{renewing:?}")
    };
    assert!(renewal.lease.is_zero(), "nothing is asked for");
    table.answered(&renewing, Some(Ok(SECOND * 20)));
    assert_eq!(table.session.grant(&key).unwrap().lease, own);
    assert_eq!(table.until_due().await.0, SECOND * 5);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_not_watched_is_lost_when_it_ends() {
    let (table, _stream) = Table::live();
    let grant = unwatched(table.grant("a", Mode::Exclusive, 1), SECOND * 4);
    table.take(grant);
    let (after, key) = table.until_due().await;
    assert_eq!(after, SECOND * 4);
    assert!(table.on_due(&key.unwrap()).is_none());
    assert_eq!(table.notice().await.unwrap(), "lost a EXPIRED");
}

#[tokio::test(start_paused = true)]
async fn a_detached_session_renews_nothing_and_loses_what_ends() {
    let (table, stream) = Table::live();
    let key = table.hold("a");
    table.session.detach(&stream, Instant::now() + LEASE * 2);
    table.until_due().await;
    assert!(table.on_due(&key).is_none());
    let (after, due) = table.until_due().await;
    assert_eq!((after, due), (MILLI * 20_100, Some(key.clone())));
    assert!(table.on_due(&key).is_none());
    assert_eq!(table.notice().await.unwrap(), "lost a EXPIRED");
}

#[tokio::test(start_paused = true)]
async fn the_client_hears_once_that_renewals_fail_and_once_that_they_do_no_more() {
    let (table, _stream) = Table::live();
    let (a, b) = (table.hold("a"), table.hold("b"));
    tokio::time::advance(SECOND * 10).await;
    let begin = |key| table.on_due(key).unwrap();
    let (of_a, of_b) = (begin(&a), begin(&b));
    table.answered(&of_a, None);
    assert_eq!(table.notice().await.unwrap(), "at risk for 20 s");
    table.answered(&of_b, None);
    assert_eq!((table.notice().await, table.at_risk()), (None, 1));
    assert!(table.session.seen().at_risk);
    table.answered(&of_a, Some(Ok(LEASE)));
    assert_eq!(table.notice().await, None, "the other one still fails");
    table.answered(&of_b, Some(Ok(LEASE)));
    assert_eq!(table.at_risk(), 0);
    assert!(!table.session.seen().at_risk);
    assert_eq!(table.notice().await.unwrap(), "recovered");
    assert_eq!(table.notice().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_failed_renewal_is_tried_again_soon_and_at_the_end_the_store_was_unreachable() {
    for (lease, pause) in [
        (LEASE, SECOND),
        (SECOND * 10, MILLI * 500),
        (MILLI * 100, MILLI * 5),
        (MILLI * 60, MILLI * 5),
    ] {
        let table = Table::with_lease(lease);
        table.session.attach(&table.deadlines).unwrap();
        let grant = Grant {
            lease,
            safe_until: Instant::now() + lease,
            ..table.grant("a", Mode::Exclusive, 1)
        };
        let key = GrantKey::of(&table.take(grant).0);
        let renewing = table.renews().await;
        table.answered(&renewing, None);
        assert_eq!(table.until_due().await.0, pause, "{lease:?}");
        let renewing = table.on_due(&key).unwrap();
        // No answer comes any more.
        let _ = renewing;
        table.until_due().await;
        assert!(table.on_due(&key).is_none());
        let lost = format!("lost a {}", LostReason::StoreUnreachable.name());
        assert_eq!(table.notice().await.unwrap(), lost);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_not_later_than_the_end_of_the_grant() {
    let (table, _stream) = Table::live();
    let key = table.hold("a");
    let renewing = table.renews().await;
    tokio::time::advance(SECOND * 19 + MILLI * 600).await;
    table.answered(&renewing, None);
    assert_eq!(table.until_due().await, (MILLI * 500, Some(key.clone())));
    assert!(table.on_due(&key).is_none());
    assert_eq!(table.notice().await.unwrap(), "lost a STORE_UNREACHABLE");
    assert_eq!(table.notice().await, None, "nothing is left at risk");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_finds_nothing_is_a_loss_unless_a_release_is_on_its_way() {
    let (table, _stream) = Table::live();
    let key = table.hold("a");
    let renewing = table.renews().await;
    table.session.set_releasing(&key, true);
    table.answered(&renewing, Some(Err(LostReason::Expired)));
    assert_eq!(table.notice().await, None);
    table.session.set_releasing(&key, false);
    table.answered(&renewing, Some(Err(LostReason::TakenOver)));
    assert_eq!(table.notice().await.unwrap(), "lost a TAKEN_OVER");
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_an_earlier_grant_says_nothing_of_this_one() {
    let (table, _stream) = Table::live();
    let key = table.hold("a");
    let renewing = table.renews().await;
    table.session.set_holds(&table.deadlines, &key, 0, None);
    table.answered(&renewing, Some(Err(LostReason::Expired)));
    table.take(table.grant("a", Mode::Exclusive, 2));
    table.answered(&renewing, Some(Err(LostReason::Expired)));
    assert_eq!(table.notice().await, None);
    assert!(table.session.grant(&key).is_some());
}

#[tokio::test(start_paused = true)]
async fn all_grants_of_a_live_session_are_renewed_at_once_if_asked_for() {
    let (table, stream) = Table::live();
    let watched = table.hold("a");
    table.take(unwatched(table.grant("b", Mode::Exclusive, 1), LEASE));
    let all = table.session.renew_all(&table.deadlines);
    let leases = all.iter().map(|it| match &it.renewal {
        LeaseRenewal::Lock(renewal) => (it.due_at, renewal.lease),
        LeaseRenewal::Permits(_) => panic!("{it:?}"),
    });
    assert!(leases.eq([(None, LEASE), (None, Duration::ZERO)]));
    tokio::time::advance(SECOND * 10).await;
    assert!(table.on_due(&watched).is_none(), "its renewal is under way");
    table.session.detach(&stream, Instant::now() + LEASE);
    assert!(table.session.renew_all(&table.deadlines).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_grant_in_doubt_is_asked_for_at_once_unless_that_is_of_no_use() {
    let (table, stream) = Table::live();
    let grant = table.take(table.grant("a", Mode::Exclusive, 7)).0;
    let key = GrantKey::of(&grant);
    let doubt = |token| table.session.renew_doubted(&table.deadlines, &key, token);
    assert!(doubt(6).is_none(), "it counts on a later one");
    table.session.set_releasing(&key, true);
    assert!(doubt(7).is_none(), "it gives it back");
    table.session.set_releasing(&key, false);
    let renewing = doubt(7).unwrap();
    assert!(doubt(7).is_none(), "it is asked for already");
    table.answered(&renewing, Some(Ok(LEASE)));
    table.session.detach(&stream, Instant::now() + LEASE);
    assert!(doubt(7).is_none(), "it has no stream");
}

#[tokio::test(start_paused = true)]
async fn after_a_step_of_the_clock_a_grant_is_safe_for_less_until_it_is_renewed() {
    let (table, _stream) = Table::live();
    let key = table.hold("a");
    let now = Instant::now();
    table.session.shorten(&table.deadlines, SECOND * 12, now);
    assert_eq!(table.safe_for(&key), SECOND * 18);
    assert_eq!(table.notice().await.unwrap(), "at risk for 18 s");
    assert_eq!(table.at_risk(), 1);
    let renewing = table.renews().await;
    table.answered(&renewing, Some(Ok(LEASE)));
    assert_eq!(table.notice().await.unwrap(), "recovered");
    assert!(table.until_due().await.0 > SECOND * 9);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_a_step_of_the_clock_has_ended_is_lost_for_that_reason() {
    for answers in [true, false] {
        let (table, _stream) = Table::live();
        let key = table.hold("a");
        table
            .session
            .shorten(&table.deadlines, LEASE * 2, Instant::now());
        assert!(table.safe_for(&key).is_zero());
        let renewing = table.renews().await;
        if answers {
            table.answered(&renewing, Some(Err(LostReason::Expired)));
        } else {
            // It is given up at its former end.
            let (after, _) = table.until_due().await;
            assert!(after > SECOND * 29 && after <= LEASE, "{after:?}");
            assert!(table.on_due(&key).is_none());
        }
        assert_eq!(table.notice().await.unwrap(), "lost a CLOCK_STEPPED");
    }
}

#[tokio::test(start_paused = true)]
async fn a_detached_session_is_not_at_risk_of_a_step_for_what_it_does_not_watch() {
    let (table, stream) = Table::live();
    let grant = unwatched(table.grant("a", Mode::Exclusive, 1), LEASE);
    let key = GrantKey::of(&table.take(grant).0);
    table.session.detach(&stream, Instant::now() + LEASE);
    table
        .session
        .shorten(&table.deadlines, SECOND * 12, Instant::now());
    assert_eq!((table.notice().await, table.at_risk()), (None, 0));
    table.until_due().await;
    assert!(table.on_due(&key).is_none());
    let (after, _) = table.until_due().await;
    assert!(after <= SECOND * 18, "{after:?}");
    assert!(table.on_due(&key).is_none());
    assert_eq!(table.notice().await.unwrap(), "lost a EXPIRED");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_by_the_client_counts_from_when_it_was_sent() {
    let (table, _stream) = Table::live();
    let key = table.hold("a");
    tokio::time::advance(SECOND * 4).await;
    let sent_at = Instant::now() - SECOND;
    let session = &table.session;
    let renewed = session.renewed_by_client(&table.deadlines, (&key, 1), sent_at, LEASE);
    let renewed = renewed.unwrap().lock().cloned().unwrap();
    assert_eq!(renewed.safe_until, sent_at + relied_on(LEASE));
    assert_eq!(table.until_due().await.0, MILLI * 8900);
    let other = GrantKey::of(&table.grant("b", Mode::Exclusive, 1));
    for of in [(&other, 1), (&key, 2)] {
        let renewed = session.renewed_by_client(&table.deadlines, of, sent_at, LEASE);
        assert!(renewed.is_none(), "{of:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_hears_at_once_that_what_was_at_risk_is_held_no_more() {
    let (table, _stream) = Table::live();
    let key = table.hold("a");
    let renewing = table.renews().await;
    table.answered(&renewing, None);
    assert_eq!(table.notice().await.unwrap(), "at risk for 20 s");
    let deadlines = &table.deadlines;
    let mut notice = std::pin::pin!(table.session.notice());
    assert!(futures::poll!(&mut notice).is_pending());
    table.session.set_holds(deadlines, &key, 0, None);
    let notice = tokio::time::timeout(MILLI, notice).await.unwrap();
    assert!(matches!(notice, Ok(crate::Notice::Recovered)), "{notice:?}");
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_about_a_former_grant_says_nothing_of_the_next_one() {
    for outcome in [None, Some(Ok(LEASE * 2)), Some(Err(LostReason::Expired))] {
        let (table, _stream) = Table::live();
        let key = table.hold("a");
        let renewing = table.renews().await;
        table.session.set_holds(&table.deadlines, &key, 0, None);
        table.take(table.grant("a", Mode::Exclusive, 2));
        table.answered(&renewing, outcome);
        assert_eq!((table.at_risk(), table.notice().await), (0, None));
        let grant = table.session.grant(&key).unwrap();
        assert_eq!((grant.serial, grant.lease), (2, LEASE));
    }
}
