//! What is counted, one row of the table each.

use anyhow::{bail, ensure};
use futures::future::{BoxFuture, FutureExt as _};
use lockkeeper_store::script::{
    Acquired, AcquiredAll, Attempt, AttemptAll, HandOver, Hold, Member, Members, Mode,
    PermitAttempt, PermitId, PermitsAcquired, PermitsReleased, Refusal, Released, Renewal,
};

use super::caller::{ATTEMPT, Caller, LEASE};

/// Grants that the watchdog renews in one call.
const RENEWED: usize = 100;

/// A row.
pub(super) struct Operation {
    pub(super) what: &'static str,
    /// What has to be there for the first one.
    before: Verb,
    once: Verb,
    /// One in this many is done: some are long.
    pub(super) one_in: usize,
}

type Verb = for<'a> fn(&'a mut Caller) -> BoxFuture<'a, anyhow::Result<()>>;

/// Everything that is counted.
pub(super) const ALL: &[Operation] = &[
    Operation {
        what: "acquire and release, `EXCLUSIVE`, a name in use",
        before: nothing,
        once: |caller| pair(caller, Mode::Exclusive).boxed(),
        one_in: 1,
    },
    Operation {
        what: "the same, with `store.native_commands`",
        before: nothing,
        once: |caller| native_pair(caller).boxed(),
        one_in: 1,
    },
    Operation {
        what: "the same, a name that was idle",
        before: nothing,
        once: |caller| {
            caller.take_new_name();
            pair(caller, Mode::Exclusive).boxed()
        },
        one_in: 1,
    },
    Operation {
        what: "acquire and release of a second hold",
        before: |caller| take(caller, Mode::Exclusive, 0).boxed(),
        once: |caller| second(caller).boxed(),
        one_in: 1,
    },
    Operation {
        what: "a try that is refused",
        before: |caller| take(caller, Mode::Exclusive, 0).boxed(),
        once: |caller| refused(caller).boxed(),
        one_in: 1,
    },
    Operation {
        what: "a hand-over",
        before: |caller| take(caller, Mode::Exclusive, 0).boxed(),
        once: |caller| hand_over(caller).boxed(),
        one_in: 1,
    },
    Operation {
        what: "the same, with `store.native_commands`",
        before: |caller| native_take(caller).boxed(),
        once: |caller| native_hand_over(caller).boxed(),
        one_in: 1,
    },
    Operation {
        what: "renewal of 100 grants",
        before: |caller| many(caller, Mode::Exclusive).boxed(),
        once: |caller| renew(caller, Mode::Exclusive).boxed(),
        one_in: 16,
    },
    Operation {
        what: "renewal of 100 `READ` grants",
        before: |caller| many(caller, Mode::Read).boxed(),
        once: |caller| renew(caller, Mode::Read).boxed(),
        one_in: 16,
    },
    Operation {
        what: "acquire and release, `FAIR`",
        before: nothing,
        once: |caller| pair(caller, Mode::Fair).boxed(),
        one_in: 1,
    },
    Operation {
        what: "acquire and release, `READ`",
        before: nothing,
        once: |caller| pair(caller, Mode::Read).boxed(),
        one_in: 1,
    },
    Operation {
        what: "acquire and release, `WRITE`",
        before: nothing,
        once: |caller| pair(caller, Mode::Write).boxed(),
        one_in: 1,
    },
    Operation {
        what: "acquire and release of two locks",
        before: nothing,
        once: |caller| two(caller).boxed(),
        one_in: 1,
    },
    Operation {
        what: "acquire and release of one permit",
        before: |caller| semaphore(caller).boxed(),
        once: |caller| permits(caller).boxed(),
        one_in: 1,
    },
    Operation {
        what: "for comparison: `SET NX PX`, and a script with `GET` and `DEL`, as rslock",
        before: nothing,
        once: |caller| caller.bare_pair().boxed(),
        one_in: 1,
    },
];

// === impl Operation ===

impl Operation {
    /// Does what has to be before the first one.
    pub(super) async fn prepare(&self, caller: &mut Caller) -> anyhow::Result<()> {
        (self.before)(caller).await
    }

    /// Does so many of them.
    pub(super) async fn run(&self, caller: &mut Caller, count: usize) -> anyhow::Result<()> {
        for _ in 0..count / self.one_in {
            (self.once)(caller).await?;
        }
        Ok(())
    }
}

fn nothing(_: &mut Caller) -> BoxFuture<'_, anyhow::Result<()>> {
    async { Ok(()) }.boxed()
}

/// Adds a hold to those that the owner has.
async fn take(caller: &mut Caller, mode: Mode, known: u32) -> anyhow::Result<()> {
    let attempt = caller.attempt(known);
    let refused = Refusal::Forgotten;
    let acquired = caller
        .scripts
        .acquire(caller.hold(mode), LEASE, &attempt, refused)
        .await?;
    match acquired {
        Acquired::Granted { serial, .. } => caller.serial = serial,
        Acquired::Busy { .. } => bail!("another owner holds {}", caller.name),
    }
    Ok(())
}

/// Gives a hold back, of which this number remains.
async fn give_back(caller: &Caller, mode: Mode, left: u32) -> anyhow::Result<()> {
    let serial = Some(caller.serial);
    let hold = caller.hold(mode);
    match caller.scripts.release(hold, serial, LEASE, None).await? {
        Released::Done { hold_count, .. } if hold_count == left => Ok(()),
        other => bail!("the release of {} came to {other:?}", caller.name),
    }
}

async fn pair(caller: &mut Caller, mode: Mode) -> anyhow::Result<()> {
    take(caller, mode, 0).await?;
    give_back(caller, mode, 0).await
}

/// A pair whose field names the grant, as those of sessions are then.
async fn native_pair(caller: &mut Caller) -> anyhow::Result<()> {
    native_take(caller).await?;
    let hold = Hold::new(&caller.name, Mode::Exclusive, &caller.field).of_grant();
    let released = caller
        .scripts
        .release_last(hold, Some(caller.serial), LEASE);
    let released = released.await?;
    ensure!(
        matches!(released, Released::Done { hold_count: 0, .. }),
        "{released:?}"
    );
    Ok(())
}

async fn native_take(caller: &mut Caller) -> anyhow::Result<()> {
    caller.field = caller.next_field()?;
    let hold = Hold::new(&caller.name, Mode::Exclusive, &caller.field).of_grant();
    let (attempt, refused) = (caller.attempt(0), Refusal::Forgotten);
    let acquired = caller.scripts.acquire(hold, LEASE, &attempt, refused);
    let Acquired::Granted { serial, .. } = acquired.await? else {
        bail!("another owner holds {}", caller.name);
    };
    caller.serial = serial;
    Ok(())
}

async fn second(caller: &mut Caller) -> anyhow::Result<()> {
    take(caller, Mode::Exclusive, 1).await?;
    give_back(caller, Mode::Exclusive, 1).await
}

async fn refused(caller: &mut Caller) -> anyhow::Result<()> {
    let attempt = caller.attempt(0);
    let hold = caller.hold_of_other(Mode::Exclusive);
    let tried = caller
        .scripts
        .acquire(hold, LEASE, &attempt, Refusal::Forgotten)
        .await?;
    ensure!(matches!(tried, Acquired::Busy { .. }), "{tried:?}");
    Ok(())
}

async fn hand_over(caller: &mut Caller) -> anyhow::Result<()> {
    let next = caller.other();
    let token = hand_to(caller, caller.hold(Mode::Exclusive), next).await?;
    caller.serial = token;
    caller.swap_owners();
    Ok(())
}

/// From grant to grant.
async fn native_hand_over(caller: &mut Caller) -> anyhow::Result<()> {
    caller.swap_owners();
    let next = caller.next_field()?;
    let hold = Hold::new(&caller.name, Mode::Exclusive, &caller.field).of_grant();
    caller.serial = hand_to(caller, hold, &next).await?;
    caller.field = next;
    Ok(())
}

async fn hand_to(caller: &Caller, hold: Hold<'_>, next: &str) -> anyhow::Result<u64> {
    let (serial, attempt) = (Some(caller.serial), Attempt::new("handed-over", 0));
    let handed_over = caller
        .scripts
        .hand_over(hold, serial, (next, LEASE), &attempt);
    match handed_over.await? {
        HandOver::Done(token) => Ok(token),
        other => bail!("{} is not handed over: {other:?}", caller.name),
    }
}

async fn many(caller: &mut Caller, mode: Mode) -> anyhow::Result<()> {
    for _ in 0..RENEWED {
        caller.take_new_name();
        take(caller, mode, 0).await?;
    }
    Ok(())
}

async fn renew(caller: &mut Caller, mode: Mode) -> anyhow::Result<()> {
    let renewals = caller.newest_names(RENEWED).map(|name| Renewal {
        name: name.into(),
        mode,
        owner: caller.owner().into(),
        lease: LEASE,
        noted: false,
    });
    let renewals: Vec<_> = renewals.collect();
    let renewed = caller.renewing.extend(&renewals).await.complete()?;
    ensure!(renewed.iter().all(Result::is_ok), "a hold is lost");
    Ok(())
}

async fn two(caller: &mut Caller) -> anyhow::Result<()> {
    let names = ["1", "2"].map(|suffix| format!("{{{}}}{suffix}", caller.name));
    let mut locks = names.each_ref().map(|name| Member {
        name,
        mode: Mode::Exclusive,
        known_holds: Some(0),
        serial: None,
    });
    let attempt = caller.new_attempt();
    let attempt = AttemptAll {
        record: &attempt,
        attempt: &attempt,
        fresh_serial: 1,
        note: None,
    };
    let owner = caller.owner();
    let members = Members {
        owner,
        locks: &locks,
    };
    let taken = caller
        .scripts
        .acquire_all(members, LEASE, attempt, Refusal::Forgotten)
        .await?;
    let AcquiredAll::Granted { grants, .. } = taken else {
        bail!("{} came to {taken:?}", caller.name);
    };
    for (lock, grant) in locks.iter_mut().zip(grants) {
        lock.serial = Some(grant.serial);
    }
    let members = Members {
        owner,
        locks: &locks,
    };
    let released = caller
        .scripts
        .release_all(members, &[LEASE; 2], None)
        .await?;
    ensure!(released.iter().all(|it| it.left == Ok(0)), "{released:?}");
    Ok(())
}

async fn semaphore(caller: &mut Caller) -> anyhow::Result<()> {
    let made = caller.scripts.set_permits(&caller.name, 10, false).await?;
    ensure!(made.created, "{} is there already", caller.name);
    Ok(())
}

async fn permits(caller: &mut Caller) -> anyhow::Result<()> {
    let ids: [PermitId; 1] = [*b"0123456789abcdef"];
    let attempt = PermitAttempt {
        request_id: None,
        attempt: ATTEMPT,
        ids: &ids,
    };
    let (scripts, name, owner) = (&caller.scripts, &caller.name, caller.owner());
    let taken = scripts.acquire_permits(name, owner, LEASE, attempt, false);
    let taken = taken.await?;
    ensure!(
        matches!(taken, PermitsAcquired::Granted { .. }),
        "{taken:?}"
    );
    let released = scripts.release_permits(name, owner, &ids, None).await?;
    ensure!(
        matches!(released, PermitsReleased::Done { .. }),
        "{released:?}"
    );
    Ok(())
}
