//! What a store does as one of a quorum: it gives a vote, takes it back, and raises its fencing
//! counter to that of the others.

use std::sync::Arc;

use super::{
    attempt::Attempt,
    encoding::{DONE, NOT_DONE, WAKE_NOBODY, millis, refusal, unsigned},
    hold::{Hold, Mode},
    host_scripts::HostScripts,
};
use crate::{
    host::words,
    script::{CallError, catalog, keys},
};

// === impl HostScripts ===

impl HostScripts {
    /// Which server it is that runs the scripts, if that is known.
    pub(crate) fn identity(&self) -> Option<Arc<str>> {
        self.host.identity()
    }

    /// Takes back what an attempt got here, if it got anything. No waiter is woken: where the vote
    /// decided nothing, nothing is free because of it.
    pub(crate) async fn withdraw(
        &self,
        hold: Hold<'_>,
        attempt: &Attempt<'_>,
    ) -> Result<bool, CallError> {
        self.undo_with(hold, attempt, WAKE_NOBODY).await
    }

    /// Raises the fencing counter to the token that others show, if the owner holds the lock here,
    /// and returns what it shows then; none if the owner does not hold it. The record of the
    /// attempt knows the grant by that token then.
    pub(crate) async fn raise(
        &self,
        hold: Hold<'_>,
        token: u64,
        record: &str,
    ) -> Result<Option<u64>, CallError> {
        let mut keys = words![keys::lock(hold.name), keys::counter(hold.name)];
        let script = if hold.mode == Mode::Read {
            keys.push(keys::read_holds(hold.name, hold.owner));
            &catalog::READ_RAISE
        } else {
            keys.push(keys::record(hold.name, record));
            &catalog::LOCK_RAISE
        };
        let idle = millis(self.config.idle_token_retention);
        let args = words![hold.field(), token, idle];
        let reply = self.eval(script, keys, args).await?;
        match *reply.as_slice() {
            [DONE, counter] => Ok(Some(unsigned(counter))),
            [NOT_DONE] => Ok(None),
            _ => Err(refusal(script, &reply)),
        }
    }
}
