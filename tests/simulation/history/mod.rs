//! What happened in one run, in order: what clients asked and were told, what became of their
//! sessions, and how the store looked. The checker sees nothing else.

mod display;

use std::{collections::HashMap, sync::Arc};

use lockkeeper_store::script::{Mode, keys};
use lockkeeper_testkit::history::{At, Log};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Milliseconds since the run began.
pub(crate) type Millis = u64;
/// A lock, by its place in the plan.
pub(crate) type Name = usize;
/// One operation, numbered in the order of invocation.
pub(crate) type Op = u32;
/// One session, numbered in the order of opening; it keeps its number when it is resumed.
pub(crate) type SessionNo = u32;

/// Who may hold a lock, and how: an owner of a session, or one without. The same owner as a reader
/// and as a writer is two holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Holder {
    pub(crate) session: Option<SessionNo>,
    pub(crate) label: u32,
    pub(crate) mode: Mode,
}

/// What a holder has in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) holder: Holder,
    pub(crate) count: i64,
    /// None: it has no time to live.
    pub(crate) until: Option<Millis>,
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// With the longest wait; none: without limit.
    Acquire(Option<Millis>),
    Try,
    /// One of several locks, with the longest wait.
    AcquireAll(Millis),
    TryAll,
    Release,
    Renew,
}

/// A grant as the client was told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) token: u64,
    pub(crate) count: u32,
    pub(crate) safe_until: Millis,
    pub(crate) watched: bool,
}

/// A final answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Granted(Seen),
    Renewed(Seen),
    /// Holds left.
    Released(u32),
    Busy,
    TimedOut,
    Cancelled,
    NotOwner,
    /// Nothing was done.
    Refused(&'static str),
    /// It may or may not have been done.
    Unknown,
    /// The channel ended without a final answer.
    Nothing,
}

/// How far a coordinator can rely on its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Calls succeed in the usual time and messages arrive.
    Calm,
    /// Calls succeed, messages may be late or lost.
    Deaf,
    /// Calls may fail.
    Rough,
    /// The coordinator is stopping, or gone.
    Down,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Invoked {
        op: Op,
        holder: Holder,
        name: Name,
        node: usize,
        kind: Kind,
        /// Carries the request id of that earlier operation.
        repeats: Option<Op>,
    },
    Told(Op, Told),
    /// The answer has come, but the client does not look at it.
    Unread(Op),
    /// The client asks for the end of the wait.
    Cancelled(Op),
    /// The client no longer wants the answer.
    Dropped(Op),
    /// A notice of the session.
    Lost(Holder, Name, u64),
    /// A grant that the session still had when it was resumed.
    Kept(Holder, Name, Seen),
    /// The client will not name this one when it resumes.
    Forgot(Holder, Name),
    /// A stream serves the session.
    Attached(SessionNo, usize),
    /// The stream is gone; whether the grants stay until their leases end.
    Broken(SessionNo, bool),
    /// The client ends its session.
    Closing(SessionNo),
    /// A client that talks to the store itself took or gave back a lock; until when it may rely on
    /// it.
    Foreign(Holder, Name, Option<Millis>),
    /// The lock as it now stands in the store, its token, who stands in its queue, and the script
    /// that changed it.
    Stored {
        name: Name,
        shares: Vec<Share>,
        token: u64,
        queue: Vec<Holder>,
        by: &'static str,
    },
    /// The store has told a call that waits that it cannot have the lock now.
    Waits(Holder, Name),
    /// New readers are held back until then, because a writer waits.
    HeldBack(Name, Millis),
    /// The lock's keys were deleted by hand.
    Forced(Name),
    Reach(usize, Reach),
    /// From now on nothing fails and clients only finish.
    Healed,
    /// A rule that the run itself found broken.
    Broke(String),
    /// For the reader.
    Note(String),
}

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: Millis,
    pub(crate) what: What,
}

/// Records a run. Clones record the same one.
#[derive(Clone, Debug)]
pub(crate) struct History(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    log: Log<Event>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    holders: HashMap<String, Holder>,
    ops: Op,
    sessions: SessionNo,
    labels: u32,
}

// === impl History ===

impl History {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared {
            log: Log::begin(),
            state: Mutex::default(),
        }))
    }

    pub(crate) fn now(&self) -> Millis {
        millis(self.0.log.now())
    }

    /// Rounded down.
    pub(crate) fn millis(&self, at: Instant) -> Millis {
        millis(self.0.log.at(at))
    }

    pub(crate) fn record(&self, what: What) {
        self.0.log.note(|at| Event {
            at: millis(at),
            what,
        });
    }

    pub(crate) fn note(&self, text: impl Into<String>) {
        self.record(What::Note(text.into()));
    }

    pub(crate) fn next_op(&self) -> Op {
        let mut state = self.0.state.lock();
        state.ops += 1;
        state.ops
    }

    pub(crate) fn next_session(&self) -> SessionNo {
        let mut state = self.0.state.lock();
        state.sessions += 1;
        state.sessions
    }

    /// A label that nobody has had.
    pub(crate) fn next_label(&self) -> u32 {
        let mut state = self.0.state.lock();
        state.labels += 1;
        state.labels
    }

    /// Says under which field the store shows an owner.
    pub(crate) fn is_field_of(&self, field: &str, owner: Holder) {
        let mut state = self.0.state.lock();
        state.holders.insert(field.to_owned(), owner);
    }

    /// Whose field it is, whatever the mode.
    pub(crate) fn owner(&self, field: &[u8]) -> Option<Holder> {
        let field = str::from_utf8(field).ok()?;
        let field = field.strip_suffix(":write").unwrap_or(field);
        let owner = keys::owner_of(field);
        self.0.state.lock().holders.get(&*owner).copied()
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        self.0.log.take()
    }
}

fn millis(at: At) -> Millis {
    u64::try_from(at.as_millis()).unwrap_or(Millis::MAX)
}

// === impl Kind ===

impl Kind {
    pub(crate) fn takes(self) -> bool {
        !matches!(self, Self::Release | Self::Renew)
    }

    /// Whether the locks of one request are operations of their own.
    pub(crate) fn is_of_several(self) -> bool {
        matches!(self, Self::AcquireAll(_) | Self::TryAll)
    }
}

// === impl Holder ===

impl Holder {
    /// An owner of a session; how it holds a lock is another question.
    pub(crate) const fn in_session(session: SessionNo, label: u32) -> Self {
        Self {
            session: Some(session),
            label,
            mode: Mode::Exclusive,
        }
    }

    /// An owner without a session.
    pub(crate) const fn sessionless(label: u32) -> Self {
        Self {
            session: None,
            label,
            mode: Mode::Exclusive,
        }
    }

    /// The same owner, holding in this way.
    pub(crate) const fn with(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Whether both may hold a lock at the same time.
    pub(crate) fn goes_with(self, other: Self) -> bool {
        let both_read = self.mode == Mode::Read && other.mode == Mode::Read;
        both_read || self.is_same_owner(other)
    }

    pub(crate) fn is_same_owner(self, other: Self) -> bool {
        (self.session, self.label) == (other.session, other.label)
    }
}
