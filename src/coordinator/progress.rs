//! What a wait needs of the caller that waits.

use std::future::Future;

use lockkeeper_access::Account;

use crate::{lock::outcome::Waiting, semaphore::outcome::WaitingForPermits, types::LockName};

/// The state of a wait that its caller is notified of.
#[derive(Debug)]
pub(crate) enum WaitState {
    /// For one lock.
    Lock(Waiting),
    /// For several locks; it is for this one now.
    OneOf(LockName, Waiting),
    /// For permits.
    Permits(WaitingForPermits),
    /// For a latch with this count.
    Latch(u32),
}

/// The caller of an operation that may wait.
pub(crate) trait Progress: Send + Sync {
    /// Notifies the caller, if that needs no waiting and leaves room for the last answer. False if
    /// it could not be done.
    fn notify(&self, state: WaitState) -> bool;

    /// Resolves when the caller does not want the answer any more.
    fn gone(&self) -> impl Future<Output = ()> + Send;

    /// The account that the wait counts on.
    fn account(&self) -> &Account;

    /// The operation waits from now on, so it no longer counts as a short one.
    fn begin_wait(&mut self);
}
