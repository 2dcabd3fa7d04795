//! The plain case without a script: the first hold of a grant that its field names, and its last
//! release. Everything else is left to the scripts, which say what a lock is.
//!
//! ```text
//! Create       the lock, unless it exists          exists, or refused -> lock_acquire
//! AddAndLook   the counter, by the step to the     not the expected   -> lock_token
//!              store's time; is the field there?   gone               -> lock_acquire
//! ```
//!
//! The counter is raised after the lock was taken, so that an attempt which is refused outdates no
//! token. Between the two the lock may end, and a newer grant have got a smaller token. The look
//! behind the step tells: the field is this grant's alone, so if it is there, it was there all the
//! time, and the tokens of newer grants come after this step. That a step went to another server
//! than the lock shows in the same way.
//!
//! A step only ever adds, so however late it is carried out, tokens grow. A lock that was taken
//! without a token is given back.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    attempt::Attempt,
    encoding::{WAKE_ONE, integer, millis, unsigned},
    hold::{Hold, Mode},
    host_scripts::HostScripts,
    lock::{Acquired, Released},
    seen_counters::Step,
};
use crate::{
    host::{Call, Commands, HostError, Numbers, Script, words},
    script::{CallError, catalog, keys},
};

// === impl HostScripts ===

impl HostScripts {
    /// Whether the field of a new grant in this mode is to name it.
    pub(crate) fn names_grants(&self, mode: Mode) -> bool {
        mode == Mode::Exclusive && self.config.native_commands && self.host.runs_commands()
    }

    /// The step of the counter for an attempt that [`HostScripts::take_free`] may make.
    pub(super) fn free_step(&self, hold: Hold<'_>, attempt: &Attempt<'_>) -> Option<Step> {
        let is_plain = attempt.request_id.is_none() && attempt.known_holds == Some(0);
        if !is_plain || !self.may_run(hold) {
            return None;
        }
        self.counters.next_if_free(hold.name)
    }

    /// Takes a free lock. None if a script has to find out: nothing is held then.
    pub(super) async fn take_free(
        &self,
        hold: Hold<'_>,
        lease: Duration,
        step: Step,
    ) -> Result<Option<Acquired>, CallError> {
        let create = Commands::Create {
            key: keys::lock(hold.name).bytes(),
            field: hold.field().bytes(),
            ttl: lease,
        };
        match self.run(&catalog::NATIVE_ACQUIRE, &create).await {
            Ok([1, _]) => {}
            Ok(_) => {
                self.counters.refused(hold.name);
                return Ok(None);
            }
            Err(HostError::Rejected { .. } | HostError::OutOfMemory) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let token = self.token_of(hold, step).await;
        let token = token.map_err(unfinished)?;
        Ok(token.map(|token| Acquired::Granted {
            hold_count: 1,
            token,
            lease,
            serial: token,
            repeated: false,
        }))
    }

    /// The token of a lock that was taken; none if it is not held, or not held any more.
    async fn token_of(&self, hold: Hold<'_>, step: Step) -> Result<Option<u64>, CallError> {
        let add = Commands::AddAndLook {
            counter: keys::counter(hold.name).bytes(),
            by: step.by,
            key: keys::lock(hold.name).bytes(),
            field: hold.field().bytes(),
        };
        match self.run(&catalog::NATIVE_ACQUIRE, &add).await {
            Ok([sum, 0]) if unsigned(sum) != step.by => {
                self.counters.forget(hold.name);
                return Ok(None);
            }
            Ok([token, _]) if unsigned(token) == step.to => {
                self.counters.stepped(hold.name, step.to);
                return Ok(Some(step.to));
            }
            Ok([sum, _]) => {
                // Boxed here and below: rare, and every acquire would carry its state.
                let token = Box::pin(self.token_by_script(hold, step, unsigned(sum))).await?;
                if token.is_some() {
                    return Ok(token);
                }
            }
            Err(HostError::Rejected { .. } | HostError::OutOfMemory) => {}
            Err(error) => return Err(error.into()),
        }
        // There is no token, and a script will say why.
        self.counters.forget(hold.name);
        Box::pin(self.remove(&catalog::NATIVE_ACQUIRE, hold)).await?;
        Ok(None)
    }

    /// The token of a lock that was taken, if the step led to another sum than was expected:
    /// another has raised the counter, or it was lost or set back. None if there is none, or if the
    /// lock is not held any more.
    pub(super) async fn token_by_script(
        &self,
        hold: Hold<'_>,
        step: Step,
        sum: u64,
    ) -> Result<Option<u64>, CallError> {
        let sent_at = Instant::now();
        let args = words![
            hold.field(),
            step.by,
            millis(self.config.idle_token_retention),
            // A counter that the step made has no time to live yet, even if the lock is gone.
            u64::from(sum == step.by),
        ];
        let keys = words![keys::lock(hold.name), keys::counter(hold.name)];
        let script = &catalog::LOCK_TOKEN;
        let reply = self.call(Call { script, keys, args }).await;
        self.saw_token(hold.name, reply.as_ref().ok(), sent_at);
        match reply {
            Ok(token) => Ok(integer(&token).map(unsigned)),
            Err(error) if error.is_transient() => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Gives back the one hold of a grant, if [`HostScripts::may_run`]. None if a script has to
    /// find out.
    pub(super) async fn give_back_last(
        &self,
        hold: Hold<'_>,
        lease: Duration,
    ) -> Result<Option<Released>, CallError> {
        match self.remove(&catalog::NATIVE_RELEASE, hold).await {
            Ok([1, _]) => Ok(Some(Released::Done {
                hold_count: 0,
                held: 0,
                lease,
            })),
            Ok(_) | Err(HostError::Rejected { .. } | HostError::OutOfMemory) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether no script may be needed. Replicas are waited for behind scripts only.
    pub(super) fn may_run(&self, hold: Hold<'_>) -> bool {
        hold.names_grant && !self.waits_for_replicas() && self.names_grants(hold.mode)
    }

    async fn remove(&self, of: &'static Script, hold: Hold<'_>) -> Result<Numbers, HostError> {
        let remove = Commands::RemoveAndPublish {
            key: keys::lock(hold.name).bytes(),
            field: hold.field().bytes(),
            channel: keys::channel_key(hold.name).bytes(),
            message: WAKE_ONE,
        };
        self.run(of, &remove).await
    }
}

/// The lock is taken, so an attempt that goes no further has to be undone.
pub(super) fn unfinished(error: impl std::fmt::Display) -> CallError {
    CallError::OutcomeUnknown(format!("a lock was taken, and then: {error}"))
}
