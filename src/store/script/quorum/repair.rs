//! A repair of one store, in the background: it is safe to repeat, and what it would change ends by
//! itself in the store if it never gets there.

use std::{sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{orders::Registered, voters::Quorum};
use crate::script::{Attempt, CallError, Hold, Mode, calls::HostScripts};

/// The first pause before it is tried again, and the longest.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// Something to do for one hold.
#[derive(Debug)]
pub(super) struct Repair {
    name: String,
    mode: Mode,
    owner: String,
    action: Action,
}

#[derive(Debug)]
pub(super) enum Action {
    /// Take back what an attempt got that decided nothing.
    Withdraw(OwnAttempt),
    /// Undo an attempt, or lower the holds to a number.
    Undo(OwnAttempt),
    /// Raise the fencing counter to the token of the grant.
    Raise { token: u64, record: String },
    /// Give one hold back.
    Release {
        serial: Option<u64>,
        lease: Duration,
        id: String,
    },
}

/// An [`Attempt`] that outlives its caller.
#[derive(Debug)]
pub(super) struct OwnAttempt {
    request_id: Option<String>,
    attempt: String,
    known_holds: Option<u32>,
    serial: Option<u64>,
}

// === impl Repair ===

impl Repair {
    pub(super) fn new(hold: Hold<'_>, action: Action) -> Arc<Self> {
        Arc::new(Self {
            name: hold.name.to_owned(),
            mode: hold.mode,
            owner: hold.owner.to_owned(),
            action,
        })
    }

    fn hold(&self) -> Hold<'_> {
        Hold::new(&self.name, self.mode, &self.owner)
    }

    /// Whether it would take what the owner has acquired since, where it comes late.
    fn takes_newer(&self) -> bool {
        match &self.action {
            Action::Withdraw(_) | Action::Raise { .. } => false,
            // Without a record it lowers the holds. A known grant that had none left is over.
            Action::Undo(attempt) => {
                let is_over = attempt.serial.is_some() && attempt.known_holds == Some(0);
                attempt.request_id.is_none() && !is_over
            }
            Action::Release { .. } => true,
        }
    }

    async fn run(&self, scripts: &HostScripts) -> Result<(), CallError> {
        let hold = self.hold();
        match &self.action {
            Action::Withdraw(attempt) => scripts.withdraw(hold, &attempt.get()).await.map(drop),
            Action::Undo(attempt) => scripts.undo(hold, &attempt.get()).await.map(drop),
            Action::Raise { token, record } => scripts.raise(hold, *token, record).await.map(drop),
            Action::Release { serial, lease, id } => {
                let released = scripts.release(hold, *serial, *lease, Some(id));
                released.await.map(drop)
            }
        }
    }
}

// === impl OwnAttempt ===

impl OwnAttempt {
    fn get(&self) -> Attempt<'_> {
        Attempt {
            request_id: self.request_id.as_deref(),
            known_holds: self.known_holds,
            serial: self.serial,
            ..Attempt::new(&self.attempt, 0)
        }
    }
}

impl From<&Attempt<'_>> for OwnAttempt {
    fn from(attempt: &Attempt<'_>) -> Self {
        Self {
            request_id: attempt.request_id.map(str::to_owned),
            attempt: attempt.attempt.to_owned(),
            known_holds: attempt.known_holds,
            serial: attempt.serial,
        }
    }
}

// === impl Quorum ===

impl Quorum {
    /// Runs a repair on these voters until each has answered, the coordinator stops, what it is
    /// about is over anyway, or an acquire supersedes it.
    pub(super) fn send(
        &self,
        repair: &Arc<Repair>,
        whom: impl IntoIterator<Item = usize>,
        at_most: Duration,
    ) {
        for which in whom {
            let voter = &self.voters()[which];
            let Some(room) = voter.room() else {
                tracing::debug!(store = %voter.name, "too many repairs: left to its lease");
                continue;
            };
            let orders = &self.0.orders;
            let registered = repair.takes_newer().then(|| orders.register(repair.hold()));
            let (this, repair) = (self.clone(), Arc::clone(repair));
            let stop = self.0.tasks.stop().clone();
            self.0.tasks.spawn("repair", async move {
                let repair = timeout(at_most, this.until_answered(which, &repair, registered));
                if let Some(Err(_elapsed)) = stop.run_until_cancelled(repair).await {
                    let store = &this.voters()[which].name;
                    tracing::debug!(%store, "not answered: left to its lease");
                }
                drop(room);
            });
        }
    }

    async fn until_answered(&self, which: usize, repair: &Repair, registered: Option<Registered>) {
        let voter = &self.voters()[which];
        // At once, behind the attempt on its connection: a frozen store runs the attempt when it
        // goes on, perhaps after this has been given up.
        if matches!(repair.action, Action::Withdraw(_))
            && let Ok(()) = self.heard(which, repair.run(&voter.scripts).await)
        {
            return;
        }
        // Kept during the pauses, too: a store that is away is called for few repairs.
        let _turn = voter.turn().await;
        let mut pause = RETRY_MIN;
        // What it would do has been done at the other one.
        while self.excluded(which).is_none() {
            voter.not_silent().await;
            let call = repair.run(&voter.scripts);
            let answer = match &registered {
                Some(registered) if registered.is_superseded() => return,
                Some(registered) => registered.send(call).await,
                None => call.await,
            };
            match self.heard(which, answer) {
                Ok(()) => return,
                Err(error) if error.is_transient() => sleep(pause).await,
                Err(error) => {
                    tracing::debug!(store = %voter.name, %error, "left to its lease");
                    return;
                }
            }
            pause = (pause * 2).min(RETRY_MAX);
        }
    }
}
