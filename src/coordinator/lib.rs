//! The domain: sessions, grants, waits and the watchdog, over scripts and free of any protocol.
//!
//! - **Session**: a client's live stream. As long as it lives, the watchdog renews its watched
//!   grants.
//! - **Owner**: the holder of a grant. In the store it is the hash field `<session id>:<owner>`, or
//!   the owner itself without a session.
//! - **Grant**: one owner's hold on one lock: mode, hold count, fencing token, lease.
//! - **Waiter**: a call that waits for a lock.
//! - **Watchdog**: the one task that renews **watched** grants; others run out.
//! - **Lease**: time to live of a grant in the store.
//! - **Fencing token**: a number that grows with every new grant of a name.
//! - **Store**: the server that keeps the locks.

mod admin;
mod answer;
mod attempt_ids;
mod config;
mod contention;
mod coordinator;
mod core;
mod deadlines;
mod dispatch;
mod election;
mod end_session;
mod error;
mod events;
mod fleet;
mod follow;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod history;
mod latch;
mod lock;
mod lock_watch;
mod looks;
mod loss;
mod mailbox;
mod metrics;
#[cfg(feature = "modelling")]
#[doc(hidden)]
pub mod modelling;
mod moved;
mod multi;
mod operation;
mod owner_lock;
mod progress;
mod readiness;
mod recent;
mod refusing;
mod repeat;
mod reply;
mod resume;
mod resume_check;
mod resume_token;
mod rights;
mod semaphore;
mod session;
mod session_secrets;
mod sessionless;
mod spans;
mod standing;
mod stream;
mod summary;
mod types;
mod wait;
mod waiters;
mod watch;
mod watchdog;
mod why;
mod yield_room;
mod yields;

pub use lockkeeper_store::script::{
    CountSet, Mode, NameKind, Note, Ownership, PermitId, PermitsSet,
};

pub use self::{
    admin::{ForceReleased, ListedLocks, ListedSessions, LockSeen, Reason},
    answer::Answer,
    config::Config,
    contention::{Contended, ContendedName, SessionShown},
    coordinator::{Coordinator, Load},
    election::{
        observe::Observer,
        outcome::{Elected, LeaderSeen, Leadership, Observed},
        request::{Campaign, ElectionValue, Proclaim, Transfer},
    },
    end_session::{SessionsEnded, SessionsOf},
    error::{Error, Limit},
    events::{Event, What},
    fleet::{ANNOUNCE_INTERVAL, Announced, Introduction, Others},
    latch::{AwaitLatch, CountDown, LatchDescription, LatchNotOpened, LatchOpened, SetCount},
    lock::{
        delivery::Delivery,
        hand_over::{Claim, Offer, Offered, TICKET_WITHIN_MAX},
        outcome::{Description, HolderSeen, NotGranted, TokenChecked, Tried, WaiterSeen, Waiting},
        request::{Acquire, CheckToken, Release, Renew},
        ticket::TicketRefused,
    },
    lock_watch::{
        changes::{GapReason, GrantEnd},
        free::{AwaitFree, LockFree},
        watcher::{LockEvent, LockWatcher},
    },
    mailbox::{MailboxReader, MailboxWriter, mailbox},
    multi::{
        locks::Locks,
        outcome::{ReleasedLock, TriedAll},
        request::{AcquireAll, ReleaseAll},
        undo::DeliveryAll,
    },
    operation::Operation,
    recent::{Recent, Recorded},
    reply::{Answered, AnswersTo, Reply},
    resume_check::{Resumed, ResumedGrant, ResumedPermits},
    semaphore::{
        attempt::PermitDelivery,
        outcome::{
            PermitHolderSeen, PermitWaiterSeen, PermitsNotGranted, ReleasedPermits,
            SemaphoreDescription, TriedPermits, WaitingForPermits,
        },
        request::{AcquirePermits, PermitCount, ReleasePermits, RenewPermits, SetPermits},
    },
    session::{EndedByForce, HolderHere, Notice, PeerAddress, Session, SessionSeen, YieldRequest},
    session_secrets::SessionSecrets,
    standing::Standing,
    stream::{Opened, Stream},
    types::{
        Grant, HolderKnown, Invalid, Lease, Limits, LockName, LostReason, OnDisconnect, Owner,
        PermitGrant, RequestId, SessionId, WaitEnd, note,
    },
    watch::{Watched, Watcher},
    why::{Cycle, Deadlocked, Explanation, HolderExplained, Link, LockExplained, WaitExplained},
    yields::{RequestYield, YieldRequested},
};

#[cfg(test)]
mod testing;
