//! A session by itself: what happens to it, and what it says then. No store, and a paused clock.

mod grants;
mod permits;
mod phases;
mod renewals;

use std::{sync::Arc, time::Duration};

use lockkeeper_access::{Access, Account, Config, Counted, Identity, Port, Quota, Quotas};
use lockkeeper_store::{host::Subscriptions, script::Mode};
use tokio::{sync::broadcast, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    held::Lost,
    session::{Deadlines, Due, Session},
};
use crate::{
    events::{Event, Events, What},
    follow::followed::Follows,
    metrics::families::{Metrics, Shared},
    resume_token::Claims,
    session::{Notice, watched::Renewing},
    testing,
    types::{
        Grant, GrantKey, LockName, OnDisconnect, Owner, PermitGrant, SessionId, tests::limits,
    },
};

const LEASE: Duration = Duration::from_secs(30);
/// A third of the lease, or slightly earlier at a moment that others share.
const RENEWED_AFTER: Duration = Duration::from_millis(9_900);
const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

/// A session and what it works with.
struct Table {
    session: Arc<Session>,
    deadlines: Deadlines,
    account: Account,
    told: broadcast::Receiver<Event>,
}

// === impl Table ===

impl Table {
    /// A session that has not had a stream yet.
    fn new() -> Self {
        Self::with_lease(LEASE)
    }

    fn with_lease(lease: Duration) -> Self {
        Self::with(lease, 100)
    }

    fn with(lease: Duration, grants_max: usize) -> Self {
        let events = Events::new(Follows::new(Subscriptions::of(Vec::new()).0, 10));
        let told = events.subscribe().unwrap();
        let metrics = Shared::new(Metrics::new(&[]));
        let config = Config {
            quotas: Quotas {
                grants: 100,
                ..Quotas::default()
            },
            ..Config::default()
        };
        let access = Access::new(config, Port::OPEN).unwrap();
        let account = access.account(Identity::named("ci"));
        let claims = Claims {
            lease,
            on_disconnect: OnDisconnect::Keep,
            client_name: "ci".to_owned(),
        };
        let session = Session::new(
            SessionId::random(),
            claims,
            (account.clone(), Counted::default()),
            grants_max,
            Instant::now(),
            events,
            metrics,
        );
        Self {
            session: Arc::new(session),
            deadlines: Deadlines::default(),
            account,
            told,
        }
    }

    /// The same with a stream.
    fn live() -> (Self, CancellationToken) {
        let table = Self::new();
        let stream = table.session.attach(&table.deadlines).unwrap();
        (table, stream)
    }

    fn grant(&self, name: &str, mode: Mode, serial: u64) -> Grant {
        let owner = Owner::in_session(self.session.id.clone(), "job", &limits()).unwrap();
        Grant {
            mode,
            watched: true,
            ..testing::grant(name, &owner, serial, LEASE)
        }
    }

    fn permits(&self, name: &str, ids: &[u8], serial: u64) -> PermitGrant {
        let owner = Owner::in_session(self.session.id.clone(), "job", &limits()).unwrap();
        PermitGrant {
            name: self::name(name),
            owner,
            ids: ids.iter().map(|id| [*id; 16]).collect(),
            serial,
            lease: LEASE,
            safe_until: Instant::now() + LEASE,
            watched: true,
            replica_acks: 0,
            min_replica_acks: 0,
        }
    }

    /// Registers a grant that was asked for just now.
    fn take(&self, mut grant: Grant) -> (Grant, Lost) {
        let (session, now) = (&self.session, Instant::now());
        let lost = session.register(&self.deadlines, &mut grant, None, now);
        (grant, lost.unwrap())
    }

    /// Registers a watched, exclusive grant.
    fn hold(&self, name: &str) -> GrantKey {
        let grant = self.grant(name, Mode::Exclusive, 1);
        GrantKey::of(&self.take(grant).0)
    }

    /// Passes time until something is due, and returns after how long and what it is.
    async fn until_due(&self) -> (Duration, Option<GrantKey>) {
        let begun = Instant::now();
        let due = self.deadlines.due().await;
        let [due] = due.as_slice() else {
            panic!("{due:?}")
        };
        let key = match due {
            Due::Grant(session, place) => {
                let mut state = session.state.lock();
                let held = state.grants.at(*place).unwrap();
                Some(GrantKey::of_holding(&held.grant))
            }
            Due::Session(_) => None,
        };
        (begun.elapsed(), key)
    }

    /// The renewal of a grant that is due then, if there is one.
    fn on_due_at(&self, key: &GrantKey, now: Instant) -> Option<Renewing> {
        let place = self.session.state.lock().grants.get(key)?.place;
        self.session.on_due(&self.deadlines, place, now)
    }

    /// What the session says now, in short; none if it says nothing.
    async fn notice(&self) -> Option<String> {
        let notice = tokio::time::timeout(MILLI, self.session.notice()).await;
        Some(match notice.ok()?.unwrap() {
            Notice::Lost(grant, why) => format!("lost {} {}", grant.name, why.name()),
            Notice::PermitsLost(grant, why) => format!("lost {} {}", grant.name, why.name()),
            Notice::YieldRequested(grant, asked) => format!("{} asks for {}", asked.by, grant.name),
            Notice::AtRisk(left) => format!("at risk for {} s", left.as_secs()),
            Notice::Recovered => "recovered".to_owned(),
            Notice::GoingAway => "going away".to_owned(),
        })
    }

    /// The next event that watchers see: what, of which name, and the holds that are left.
    fn told(&mut self) -> Option<(What, String, u32)> {
        let event = self.told.try_recv().ok()?;
        Some((event.what, event.name.to_string(), event.holds))
    }

    /// The grants that count against the quota of the account.
    fn counted(&self) -> u32 {
        let free = |more: &u32| self.account.count(Quota::Grants, *more).is_ok();
        100 - (0..=100).rev().find(free).unwrap()
    }
}

fn name(name: &str) -> LockName {
    LockName::parse(name, &limits()).unwrap()
}
