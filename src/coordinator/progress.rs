//! The caller of a wait, as the wait sees it.

use std::future::Future;

use lockkeeper_access::Account;

use crate::{lock::outcome::Waiting, semaphore::outcome::WaitingForPermits, types::LockName};

/// The state of a wait that its caller is notified of.
#[derive(Debug)]
pub(crate) enum WaitState {
    /// For one lock.
    Lock(Waiting),
    /// For several locks, now in the line of this one.
    OneOf(LockName, Waiting),
    /// For permits.
    Permits(WaitingForPermits),
    /// For a latch with this count.
    Latch(u32),
}

/// The caller of an operation that may wait.
pub(crate) trait Progress: Send + Sync {
    /// Notifies the caller if that does not block and leaves room for the last answer. False if it
    /// was not possible.
    fn notify(&self, state: WaitState) -> bool;

    /// Resolves when the caller no longer wants the answer.
    fn gone(&self) -> impl Future<Output = ()> + Send;

    /// The account that the wait counts against.
    fn account(&self) -> &Account;

    /// Begins a wait: the operation no longer counts as a short one.
    fn begin_wait(&mut self);
}
