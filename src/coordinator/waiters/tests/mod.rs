//! The lines of one coordinator by themselves. The store has nothing but their channels.

mod handed_on;
mod joining;
mod notices;
mod woken;

use std::{sync::Arc, time::Duration};

use lockkeeper_access::{Account, Quotas};
use lockkeeper_base::tasks::Tasks;
use lockkeeper_store::{
    host::{
        Subscriptions, Wake,
        embedded::{Clock, EmbeddedStore},
    },
    script::{Mode, keys},
};
use tokio::{sync::broadcast, task::JoinHandle};

use super::queue::{QueueTicket, Waiters, channel};
use crate::{
    error::Error,
    events::{Event, Events},
    follow::followed::Follows,
    metrics::families::{Metrics, Shared},
    testing::{self, name},
    types::{Goal, HolderKnown, Owner, SessionId, tests::limits},
};

const EXCLUSIVE: Goal = Goal::Lock(Mode::Exclusive);
const FAIR: Goal = Goal::Lock(Mode::Fair);
const READ: Goal = Goal::Lock(Mode::Read);
const WRITE: Goal = Goal::Lock(Mode::Write);
const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);
const PER_LOCK_MAX: usize = 3;
const MAX: usize = 5;

/// The lines, and a store that counts subscriptions.
struct Lines {
    waiters: Arc<Waiters>,
    store: EmbeddedStore,
    metrics: Shared,
    told: broadcast::Receiver<Event>,
}

// === impl Lines ===

impl Lines {
    fn new() -> Self {
        Self::within(PER_LOCK_MAX, MAX)
    }

    fn within(per_lock_max: usize, max: usize) -> Self {
        let store = EmbeddedStore::new(Clock::starting_at(0));
        let (host, _wakes) = Subscriptions::of(vec![store.connect()]);
        let events = Events::new(Follows::new(host.clone(), 10));
        let told = events.subscribe().unwrap();
        let (tasks, metrics) = (Tasks::new(), Shared::new(Metrics::new(&[])));
        let shared = Arc::clone(&metrics);
        let waiters = Waiters::new(host, events, tasks, per_lock_max, max, shared);
        Self {
            waiters,
            store,
            metrics,
            told,
        }
    }

    /// Notifies waiters of their positions and of the holder, as a coordinator does.
    fn notify(&self) -> JoinHandle<()> {
        let waiters = Arc::clone(&self.waiters);
        let tasks = &self.waiters.tasks;
        tasks.spawn("positions", waiters.tell_positions())
    }

    fn try_join(&self, of: &str, goal: Goal, by: &str) -> Result<QueueTicket, Error> {
        let account = Account::default();
        let caller = (owner(by), &account);
        let holder = HolderKnown::default();
        self.waiters.join(&name(of), goal, caller, holder, None)
    }

    fn join(&self, of: &str, goal: Goal, by: &str) -> QueueTicket {
        self.try_join(of, goal, by).unwrap()
    }

    /// The first waiter of a line, after its subscription has woken it.
    async fn head(&self, of: &str, goal: Goal, by: &str) -> QueueTicket {
        let ticket = self.join(of, goal, by);
        ticket.news().await;
        assert!(
            ticket.follows_hint(),
            "it looks again when it is subscribed"
        );
        ticket.no_outcome();
        ticket
    }

    /// A message about the name, as the store sends it to waiters for that goal.
    fn message(&self, of: &str, goal: Goal) {
        let channel = channel(&name(of), goal, &owner(""));
        self.waiters.follow(&Wake::Message {
            channel,
            payload: b"0".as_slice().into(),
        });
    }

    fn labels(&self, of: &str, goal: Goal, max: usize) -> (Vec<String>, usize) {
        let (waiters, count) = self.waiters.list_for(&name(of), goal, max);
        let labels = waiters.iter().map(|it| it.owner.label.to_string());
        (labels.collect(), count)
    }

    fn subscriptions(&self, of: &str) -> usize {
        self.store.subscription_count(&keys::channel(of))
    }
}

/// Whether the waiter has news at this moment.
async fn has_news(ticket: &QueueTicket) -> bool {
    tokio::time::timeout(MILLI, ticket.news()).await.is_ok()
}

fn owner(label: &str) -> Owner {
    let label = if label.is_empty() { "nobody" } else { label };
    Owner::sessionless(label, &limits()).unwrap()
}

fn account(waiters_per_lock: u32) -> Account {
    testing::account(Quotas {
        waiters_per_lock,
        ..Quotas::default()
    })
}

fn in_session(session: &SessionId, label: &str) -> Owner {
    Owner::in_session(session.clone(), label, &limits()).unwrap()
}
