//! The labels of the coordinator's metrics.

use lockkeeper_base::metrics::{Label, label};
use lockkeeper_store::script::Mode;

use crate::{error::Limit, types::LostReason};

label! {
    /// What a caller wants to hold.
    pub(crate) enum Kind = "mode" {
        Exclusive = "exclusive",
        Fair = "fair",
        Read = "read",
        Write = "write",
        Permits = "permits",
    }
}

label! {
    /// How an acquire ended.
    pub(crate) enum Outcome = "result" {
        Granted = "granted",
        Busy = "busy",
        TimedOut = "timed_out",
        Cancelled = "cancelled",
        Deadlock = "deadlock",
        Failed = "failed",
    }
}

label! {
    /// How a release ended.
    pub(crate) enum Given = "result" {
        Released = "released",
        NotOwner = "not_owner",
        Failed = "failed",
    }
}

label! {
    /// Who renews.
    pub(crate) enum Renewer = "by" {
        Watchdog = "watchdog",
        Client = "client",
    }
}

label! {
    /// How a renewal ended.
    pub(crate) enum Renewal = "result" {
        Done = "renewed",
        NotOwner = "not_owner",
        Failed = "failed",
    }
}

label! {
    /// What wakes waiters.
    pub(crate) enum Source = "source" {
        Message = "message",
        Local = "local",
        Subscribed = "subscribed",
        Gap = "gap",
        LeaseEnd = "lease_end",
        Poll = "poll",
    }
}

label! {
    /// How the release before a hand-over was heard of.
    pub(crate) enum Heard = "source" {
        Message = "message",
        Local = "local",
    }
}

label! {
    /// Why a grant is lost.
    pub(crate) enum Reason = "reason" {
        Expired = "expired",
        TakenOver = "taken_over",
        StoreUnreachable = "store_unreachable",
        ForceReleased = "force_released",
        Preempted = "preempted",
        ClockStepped = "clock_stepped",
        HandedOver = "handed_over",
    }
}

label! {
    /// Which way a clock stepped.
    pub(crate) enum Direction = "direction" {
        Forward = "forward",
        Back = "back",
    }
}

label! {
    /// Operations that do not wait.
    pub(crate) enum OperationName = "operation" {
        TryAcquire = "try_acquire",
        TryAcquireAll = "try_acquire_all",
        Release = "release",
        ReleaseAll = "release_all",
        Renew = "renew",
        Describe = "describe",
        Explain = "explain",
        CheckToken = "check_token",
        TryAcquirePermits = "try_acquire_permits",
        ReleasePermits = "release_permits",
        RenewPermits = "renew_permits",
        SetPermits = "set_permits",
        DescribeSemaphore = "describe_semaphore",
        SetCount = "set_count",
        CountDown = "count_down",
        DescribeLatch = "describe_latch",
        DeleteLatch = "delete_latch",
        Proclaim = "proclaim",
        Resign = "resign",
        Leader = "leader",
        Transfer = "transfer",
        Offer = "offer",
        Claim = "claim",
    }
}

impl From<Mode> for Kind {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Exclusive => Self::Exclusive,
            Mode::Fair => Self::Fair,
            Mode::Read => Self::Read,
            Mode::Write => Self::Write,
        }
    }
}

impl From<&LostReason> for Reason {
    fn from(reason: &LostReason) -> Self {
        match reason {
            LostReason::Expired => Self::Expired,
            LostReason::TakenOver => Self::TakenOver,
            LostReason::StoreUnreachable => Self::StoreUnreachable,
            LostReason::ForceReleased {
                preempted: true, ..
            } => Self::Preempted,
            LostReason::ForceReleased { .. } => Self::ForceReleased,
            LostReason::ClockStepped => Self::ClockStepped,
            LostReason::HandedOver => Self::HandedOver,
        }
    }
}

impl Label for Limit {
    const NAME: &'static str = "limit";
    const VALUES: &'static [&'static str] = &[
        "waiters_per_lock_max",
        "waiters_max",
        "waits_per_session_max",
        "sessions_max",
        "grants_per_session_max",
        "watchers_max",
        "holders_per_lock_max",
        "permits_per_name_max",
        "yields_max",
    ];

    fn index(self) -> usize {
        match self {
            Self::WaitersPerLock => 0,
            Self::Waiters => 1,
            Self::WaitsPerSession => 2,
            Self::Sessions => 3,
            Self::GrantsPerSession => 4,
            Self::Watchers => 5,
            Self::HoldersPerLock => 6,
            Self::PermitsPerName => 7,
            Self::Yields => 8,
        }
    }
}
