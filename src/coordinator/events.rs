//! Events for watchers, and for the history if it is kept. Without either they cost two loads.
//!
//! A watcher has no queue of its own: all read the last `EVENTS_KEPT` events, each at its own pace.
//! One that falls behind restarts with a snapshot. An event is emitted under the lock of the state
//! that it changes, and a snapshot takes the same locks. So a snapshot misses no event that does
//! not follow it.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lockkeeper_store::script::{Mode, NameKind, Note, keys};
use parking_lot::Mutex;
use tokio::{sync::broadcast, time::sleep};

use crate::{
    error::{Error, Limit},
    follow::followed::Follows,
    history::History,
    lock_watch::look::LockShown,
    types::{Goal, Grant, Holding, LockName, LostReason, Owner, PermitGrant},
};

/// Events that a watcher may lag behind.
const EVENTS_KEPT: usize = 1024;

/// Between two looks for kept events that have no texts of their own yet. While many happen, most
/// are dropped before.
const APART_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of watchers.
const WATCHERS_MAX: usize = 64;

/// An event on a name.
#[derive(Clone, Debug)]
pub struct Event {
    /// The kind of event.
    pub what: What,
    /// The name.
    pub name: LockName,
    /// The kind of the name.
    pub kind: NameKind,
    /// The mode of the lock; none if it is no lock.
    pub mode: Option<Mode>,
    /// The owner concerned.
    pub owner: Owner,
    /// The grant's fencing token; 0 for a wait, and for permits.
    pub fencing_token: u64,
    /// Holds, or permits; 0 for a wait.
    pub holds: u32,
    /// What the owner says of the grant.
    pub note: Option<Arc<Note>>,
}

/// The kind of event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A grant, or one more hold.
    Granted,
    /// A release.
    Released,
    /// No longer held.
    Lost(LostReason),
    /// A wait began.
    WaitBegan,
    /// A wait ended.
    WaitEnded,
    /// A grant left to its lease by a session that nobody resumed.
    Abandoned,
    /// A wait is part of a deadlock.
    Deadlock,
}

/// The events of one coordinator.
#[derive(Debug)]
pub(crate) struct Events {
    /// The locks that are followed here. An event is a reason to look at its lock.
    pub(crate) locks: Arc<Follows<LockShown>>,
    watchers: AtomicUsize,
    /// None without a watcher.
    sender: Mutex<Option<broadcast::Sender<Event>>>,
    history: OnceLock<History<Event>>,
}

// === impl Events ===

impl Events {
    pub(crate) fn new(locks: Arc<Follows<LockShown>>) -> Arc<Self> {
        Arc::new(Self {
            locks,
            watchers: AtomicUsize::new(0),
            sender: Mutex::default(),
            history: OnceLock::new(),
        })
    }

    /// Emits an event if there are watchers, if a lock is followed, or if the history is kept.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) {
        let is_watched = self.watchers.load(Ordering::Relaxed) > 0 || self.locks.is_in_use();
        match self.history.get() {
            Some(history) => {
                let event = event();
                if is_watched {
                    self.send(event.clone());
                }
                let text_bytes = event.text_bytes();
                history.keep(event, text_bytes);
            }
            None if is_watched => self.send(event()),
            None => {}
        }
    }

    #[cold]
    fn send(&self, event: Event) {
        if self.locks.is_in_use() {
            let channel = keys::channel(event.name.store_key());
            self.locks.hint(&channel, event.what == What::Released);
        }
        if let Some(sender) = &*self.sender.lock() {
            // Either result is fine: every watcher may have gone.
            let _ = sender.send(event);
        }
    }

    /// Keeps the events from now on. False if they were kept already.
    pub(crate) fn keep_history(&self) -> bool {
        self.history.set(History::new()).is_ok()
    }

    /// Gives kept events texts of their own. The texts of a grant lie among those of others, so few
    /// events would keep the memory of many grants that have ended.
    pub(crate) async fn set_history_apart(&self) {
        let mut stayed = 0;
        while let Some(history) = self.history() {
            history.replace(stayed, Event::apart);
            stayed = history.last();
            sleep(APART_INTERVAL).await;
        }
    }

    /// None unless it is kept.
    pub(crate) fn history(&self) -> Option<&History<Event>> {
        self.history.get()
    }

    pub(crate) fn subscribe(&self) -> Result<broadcast::Receiver<Event>, Error> {
        let mut sender = self.sender.lock();
        if self.watchers.load(Ordering::Relaxed) >= WATCHERS_MAX {
            return Err(Error::LimitReached(Limit::Watchers));
        }
        self.watchers.fetch_add(1, Ordering::Relaxed);
        let sender = sender.get_or_insert_with(|| broadcast::channel(EVENTS_KEPT).0);
        Ok(sender.subscribe())
    }

    pub(crate) fn unsubscribe(&self) {
        let mut sender = self.sender.lock();
        if self.watchers.fetch_sub(1, Ordering::Relaxed) == 1 {
            *sender = None;
        }
    }
}

// === impl Event ===

impl Event {
    pub(crate) fn of(what: What, holding: &Holding) -> Self {
        match holding {
            Holding::Lock(grant) => Self::of_grant(what, grant),
            Holding::Permits(grant) => Self::of_permits(what, grant),
        }
    }

    pub(crate) fn of_grant(what: What, grant: &Grant) -> Self {
        Self {
            fencing_token: grant.fencing_token,
            holds: grant.hold_count,
            note: grant.note.clone(),
            ..Self::of_lock(what, &grant.name, grant.mode, &grant.owner)
        }
    }

    /// The same, but it shares no text with others.
    fn apart(&self) -> Self {
        Self {
            name: self.name.apart(),
            owner: self.owner.apart(),
            note: self.note.as_deref().cloned().map(Arc::new),
            ..self.clone()
        }
    }

    pub(crate) fn of_permits(what: What, grant: &PermitGrant) -> Self {
        let holds = u32::try_from(grant.ids.len()).unwrap_or(u32::MAX);
        Self::of_goal(what, &grant.name, Goal::Permits, &grant.owner).holding(holds)
    }

    /// A release without a session, whose grant is unknown.
    pub(crate) fn of_release(name: &LockName, mode: Mode, owner: &Owner, holds: u32) -> Self {
        Self::of_lock(What::Released, name, mode, owner).holding(holds)
    }

    /// The same for permits.
    pub(crate) fn of_permit_release(name: &LockName, owner: &Owner) -> Self {
        Self::of_goal(What::Released, name, Goal::Permits, owner)
    }

    pub(crate) fn of_lock(what: What, name: &LockName, mode: Mode, owner: &Owner) -> Self {
        Self::of_goal(what, name, Goal::Lock(mode), owner)
    }

    /// An event without a token, holds and a note.
    pub(crate) fn of_goal(what: What, name: &LockName, goal: Goal, owner: &Owner) -> Self {
        let (kind, mode) = match goal {
            Goal::Lock(mode @ (Mode::Exclusive | Mode::Fair)) => (NameKind::Lock, Some(mode)),
            Goal::Lock(mode @ (Mode::Read | Mode::Write)) => (NameKind::ReadWriteLock, Some(mode)),
            Goal::Permits => (NameKind::Semaphore, None),
            Goal::Latch => (NameKind::Latch, None),
        };
        Self {
            what,
            name: name.clone(),
            kind,
            mode,
            owner: owner.clone(),
            fencing_token: 0,
            holds: 0,
            note: None,
        }
    }

    /// The bytes of the texts that it refers to, as if nothing else did.
    fn text_bytes(&self) -> usize {
        let note = self.note.as_ref().map_or(0, |note| {
            let labels = note.labels.iter();
            let labels: usize = labels.map(|(key, value)| key.len() + value.len()).sum();
            note.reason.len() + labels
        });
        let detail = match &self.what {
            What::Lost(reason) => reason.detail().map_or(0, str::len),
            _ => 0,
        };
        self.name.store_key().len()
            + self.owner.label.len()
            + self.owner.field().len()
            + note
            + detail
    }

    /// Sets the number of remaining holds.
    #[must_use]
    pub(crate) fn holding(self, holds: u32) -> Self {
        Self { holds, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::types::{SessionId, tests::limits};

    /// The history drops old events by the room that their texts take.
    #[test]
    fn an_event_takes_the_room_of_all_of_its_texts() {
        let limits = limits();
        let name = LockName::parse("0123456789", &limits).unwrap();
        let owner = Owner::sessionless("job", &limits).unwrap();
        let event = Event::of_lock(What::Granted, &name, Mode::Exclusive, &owner);
        // The owner is there as its label and as its field.
        assert_eq!(event.text_bytes(), 10 + 3 + 3);
        let in_session = Owner::in_session(SessionId::random(), "job", &limits).unwrap();
        let field = in_session.field().len();
        let of_session = Event::of_goal(What::WaitBegan, &name, Goal::Permits, &in_session);
        assert_eq!(of_session.text_bytes(), 10 + 3 + field);
        let labels = [("team", "build"), ("host", "ci")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let noted = Event {
            note: Some(Arc::new(Note {
                reason: "deploys".to_owned(),
                labels: BTreeMap::from(labels),
            })),
            ..event.clone()
        };
        assert_eq!(noted.text_bytes(), 16 + 7 + (4 + 5) + (4 + 2));
        let lost = Event {
            what: What::Lost(LostReason::ForceReleased {
                reason: "it hangs".into(),
                closed_until: None,
                preempted: false,
            }),
            ..event
        };
        assert_eq!(lost.text_bytes(), 16 + 8);
    }

    #[test]
    fn a_release_of_permits_is_about_a_semaphore() {
        let limits = limits();
        let name = LockName::parse("s", &limits).unwrap();
        let owner = Owner::sessionless("job", &limits).unwrap();
        let event = Event::of_permit_release(&name, &owner);
        assert_eq!((event.what, event.holds), (What::Released, 0));
        assert_eq!((event.kind, event.mode), (NameKind::Semaphore, None));
    }

    #[test]
    fn the_kind_of_a_name_follows_from_what_is_wanted() {
        let limits = limits();
        let name = LockName::parse("a", &limits).unwrap();
        let owner = Owner::sessionless("job", &limits).unwrap();
        let of_lock = |mode| (Goal::Lock(mode), Some(mode));
        let rows = [
            (of_lock(Mode::Exclusive), NameKind::Lock),
            (of_lock(Mode::Fair), NameKind::Lock),
            (of_lock(Mode::Read), NameKind::ReadWriteLock),
            (of_lock(Mode::Write), NameKind::ReadWriteLock),
            ((Goal::Permits, None), NameKind::Semaphore),
            ((Goal::Latch, None), NameKind::Latch),
        ];
        for ((goal, mode), kind) in rows {
            let event = Event::of_goal(What::WaitBegan, &name, goal, &owner);
            assert_eq!((event.kind, event.mode), (kind, mode));
        }
    }
}
