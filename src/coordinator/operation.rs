//! The operations of a coordinator: one table of what each is asked for, how it runs, and what its
//! answer is. RPCs ask them one by one; frames of a session's stream become [`Operation`]s.

use std::{convert::identity, future::Future, sync::Arc};

use futures::FutureExt as _;
use lockkeeper_base::tasks::DetachOnDrop;
use lockkeeper_store::script::{CountSet, PermitsSet};
use tracing::{Instrument as _, Span};

use crate::{
    answer::Answer,
    coordinator::Coordinator,
    core::Core,
    dispatch::{self, Call},
    election::{
        lead,
        outcome::{Elected, LeaderSeen},
        request::{Campaign, Proclaim, Transfer},
    },
    error::Error,
    latch::{self, AwaitLatch, CountDown, LatchDescription, LatchNotOpened, LatchOpened, SetCount},
    lock::{
        self,
        delivery::Delivery,
        hand_over::{Claim, Offer, Offered},
        outcome::{Description, NotGranted, TokenChecked, Tried},
        request::{Acquire, CheckToken, Release, Renew},
    },
    lock_watch::free::{AwaitFree, LockFree, await_free},
    metrics::labels::OperationName,
    multi::{
        self,
        outcome::{ReleasedLock, TriedAll},
        request::{AcquireAll, ReleaseAll},
        undo::DeliveryAll,
    },
    reply::Reply,
    semaphore::{
        self,
        attempt::PermitDelivery,
        outcome::{PermitsNotGranted, ReleasedPermits, SemaphoreDescription, TriedPermits},
        request::{AcquirePermits, ReleasePermits, RenewPermits, SetPermits},
    },
    spans,
    summary::{Counts, Subject, Summary},
    types::{Grant, LockName, PermitGrant},
    why::{self, Explanation},
    yields::YieldRequested,
};

/// Makes, of the rows of the table, the variants of [`Operation`], the methods of [`Coordinator`]
/// for what does not wait, and a [`Call`] for each.
macro_rules! operations {
    (
        |$core:ident, $it:ident, $caller:ident|
        asks { $(
            $(#[$ask_doc:meta])*
            $method:ident: $Ask:ident($Asked:ty) -> $Answered:ident($AskAnswer:ty) {
                $ask:expr, $ask_subject:expr, $ask_summary:expr
            }
        )* }
        waits { $(
            $(#[$wait_doc:meta])*
            $name:ident: $Wait:ident($Waited:ty) -> $Won:ident($Prize:ty) or $Lost:ident($End:ty) {
                $wait:expr, $wait_subject:expr, $wait_summary:expr
            }
        )* }
    ) => {
        /// A validated operation.
        #[derive(Clone, Debug)]
        pub enum Operation {
            $($(#[$ask_doc])* $Ask($Asked),)*
            $($(#[$wait_doc])* $Wait($Waited),)*
        }

        /// A type for each row.
        mod calls {
            $(pub(super) enum $Ask {})*
            $(pub(super) enum $Wait {})*
        }

        $(impl Call for calls::$Ask {
            type Request = $Asked;
            type Caller = ();
            type Answer = $AskAnswer;

            const NAME: &'static str = stringify!($method);
            const METRIC: Option<OperationName> = Some(OperationName::$Ask);

            fn subject($it: &$Asked) -> Subject<'_> {
                $ask_subject
            }

            fn summary(answer: &$AskAnswer) -> Summary {
                ($ask_summary)(answer)
            }

            async fn run(
                $core: &Arc<Core>,
                $it: &$Asked,
                (): &mut (),
            ) -> Result<$AskAnswer, Error> {
                $ask.await
            }
        })*

        $(impl Call for calls::$Wait {
            type Request = $Waited;
            type Caller = Reply;
            type Answer = Result<$Prize, $End>;

            const NAME: &'static str = stringify!($name);
            const METRIC: Option<OperationName> = None;

            fn subject($it: &$Waited) -> Subject<'_> {
                $wait_subject
            }

            fn summary(answer: &Result<$Prize, $End>) -> Summary {
                match answer {
                    Ok(prize) => ($wait_summary)(prize),
                    Err(ended) => ended.summary(),
                }
            }

            async fn run(
                $core: &Arc<Core>,
                $it: &$Waited,
                $caller: &mut Reply,
            ) -> Result<Result<$Prize, $End>, Error> {
                $wait.await
            }
        })*

        /// Operations that do not wait. Each begins when first polled; if its future is dropped
        /// then, it runs to its end and undoes itself if it has made a grant.
        impl Coordinator {
            $(
                $(#[$ask_doc])*
                pub fn $method(&self, request: $Asked) -> DetachOnDrop<Result<$AskAnswer, Error>> {
                    dispatch::ask::<calls::$Ask, _>(&self.core, request, identity)
                }
            )*

            /// An operation that does not wait, and its answer; see [`Coordinator::release`]. (One
            /// that waits ends like one that nobody wants.)
            pub fn ask(&self, operation: Operation) -> DetachOnDrop<Box<Answer>> {
                let core = &self.core;
                match operation {
                    $(Operation::$Ask(request) => dispatch::ask::<calls::$Ask, _>(
                        core,
                        request,
                        |ended| Box::new(ended.map_or_else(Answer::Failed, Answer::$Answered)),
                    ),)*
                    operation => {
                        let (name, asked) = (operation.name(), Arc::clone(core));
                        let asking = async move {
                            let ended = answer(&asked, &operation, &mut Reply::unheard()).await;
                            Box::new(ended.unwrap_or_else(Answer::Failed))
                        };
                        core.tasks.detach_on_drop(name, Box::pin(asking))
                    }
                }
            }
        }

        impl Operation {
            /// For logs and task names.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$Ask(_) => calls::$Ask::NAME,)*
                    $(Self::$Wait(_) => calls::$Wait::NAME,)*
                }
            }

            /// Whether it can be cancelled, because it may wait.
            pub fn waits(&self) -> bool {
                matches!(self, $(Self::$Wait(_))|*)
            }

            fn span(&self) -> Span {
                let subject = match self {
                    $(Self::$Ask(request) => calls::$Ask::subject(request),)*
                    $(Self::$Wait(request) => calls::$Wait::subject(request),)*
                };
                spans::of(self.name(), subject)
            }
        }

        async fn answer(
            core: &Arc<Core>,
            operation: &Operation,
            reply: &mut Reply,
        ) -> Result<Answer, Error> {
            match operation {
                $(Operation::$Ask(request) => {
                    let mut caller = ();
                    let run = dispatch::run::<calls::$Ask>(core, request, &mut caller);
                    Box::pin(run).await.map(Answer::$Answered)
                })*
                $(Operation::$Wait(request) => {
                    let run = dispatch::run::<calls::$Wait>(core, request, reply);
                    Ok(Box::pin(run).await?.map_or_else(Answer::$Lost, Answer::$Won))
                })*
            }
        }
    };
}

operations! {
    |core, it, caller|

    asks {
        /// Takes a lock if it is free now; `wait` is not used.
        try_acquire: TryAcquire(Acquire) -> Tried(Tried) {
            lock::acquire::try_acquire(core, it), it.subject(), Tried::summary
        }
        /// Takes several locks if all are free now; `wait` is not used.
        try_acquire_all: TryAcquireAll(AcquireAll) -> TriedAll(TriedAll) {
            multi::acquire::try_acquire_all(core, it), it.subject(), TriedAll::summary
        }
        /// Releases one hold. Answers with the owner's remaining holds.
        release: Release(Release) -> Released(u32) {
            lock::release::release(core, it),
            Subject::of(&it.name).in_mode(it.mode).by(&it.owner).counts(Counts::Releases(1)),
            |_| Summary::Released { not_held: 0 }
        }
        /// Releases one hold of each of several locks.
        release_all: ReleaseAll(ReleaseAll) -> ReleasedAll(Vec<ReleasedLock>) {
            multi::release::release_all(core, it),
            Subject::default().by(&it.owner).counts(Counts::Releases(it.locks.iter().count())),
            |released: &Vec<ReleasedLock>| Summary::Released {
                not_held: released.iter().filter(|lock| lock.left.is_none()).count(),
            }
        }
        /// Extends a lease. Answers with the grant and its new lease.
        renew: Renew(Renew) -> Renewed(Grant) {
            lock::renew::renew(core, it),
            Subject::of(&it.name).in_mode(it.mode).by(&it.owner).counts(Counts::Renewal),
            |grant: &Grant| Summary::Renewed(Some(grant.fencing_token))
        }
        /// Describes a lock's holders and waiters.
        describe: Describe(LockName) -> Described(Description) {
            lock::describe::describe(core, it), Subject::of(it), |_| Summary::Answered
        }
        /// Explains why a lock is waited for.
        explain: Explain(LockName) -> Explained(Explanation) {
            why::explain(core, it), Subject::of(it), |_| Summary::Answered
        }
        /// Checks whether a token is the newest grant's.
        check_token: CheckToken(CheckToken) -> TokenChecked(TokenChecked) {
            lock::renew::check_token(core, it), Subject::of(&it.name), |_| Summary::Answered
        }
        /// Takes permits if they are free now; `wait` is not used.
        try_acquire_permits: TryAcquirePermits(AcquirePermits) -> PermitsTried(TriedPermits) {
            semaphore::acquire::try_acquire(core, it), it.subject(), TriedPermits::summary
        }
        /// Releases permits.
        release_permits: ReleasePermits(ReleasePermits) -> PermitsReleased(ReleasedPermits) {
            semaphore::release::release(core, it),
            Subject::of(&it.name).by(&it.owner).counts(Counts::Releases(1)),
            |_| Summary::Released { not_held: 0 }
        }
        /// Extends leases of permits. Answers with the grants and their new leases.
        renew_permits: RenewPermits(RenewPermits) -> PermitsRenewed(Vec<PermitGrant>) {
            semaphore::renew::renew(core, it),
            Subject::of(&it.name).by(&it.owner).counts(Counts::Renewal),
            |_| Summary::Renewed(None)
        }
        /// Creates a semaphore or changes its size.
        set_permits: SetPermits(SetPermits) -> PermitsSet(PermitsSet) {
            semaphore::describe::set(core, it), Subject::of(&it.name), |_| Summary::Answered
        }
        /// Describes the permits, their holders and their waiters.
        describe_semaphore: DescribeSemaphore(LockName)
            -> SemaphoreDescribed(SemaphoreDescription) {
            semaphore::describe::describe(core, it), Subject::of(it), |_| Summary::Answered
        }
        /// Sets the count of a latch if it has none.
        set_count: SetCount(SetCount) -> CountSet(CountSet) {
            latch::set(core, it), Subject::of(&it.name), |_| Summary::Answered
        }
        /// Lowers the count of a latch. Answers with the remaining count.
        count_down: CountDown(CountDown) -> CountedDown(u32) {
            latch::count_down(core, it), Subject::of(&it.name), |_| Summary::Answered
        }
        /// Describes the count of a latch and its waiters.
        describe_latch: DescribeLatch(LockName) -> LatchDescribed(LatchDescription) {
            latch::look(core, it), Subject::of(it), |_| Summary::Answered
        }
        /// Deletes a latch. Answers whether it existed.
        delete_latch: DeleteLatch(LockName) -> LatchDeleted(bool) {
            latch::delete(core, it), Subject::of(it), |_| Summary::Answered
        }
        /// Proclaims a leader's new value. Answers with its revision.
        proclaim: Proclaim(Proclaim) -> Proclaimed(u64) {
            lead::proclaim(core, it), Subject::of(&it.name).by(&it.owner), |_| Summary::Answered
        }
        /// Ends a leadership: releases one hold of the lock. Answers with the remaining holds.
        resign: Resign(Release) -> Resigned(u32) {
            lead::resign(core, it),
            Subject::of(&it.name).in_mode(it.mode).by(&it.owner).counts(Counts::Releases(1)),
            |_| Summary::Released { not_held: 0 }
        }
        /// Asks a leader to resign in favour of a candidate.
        transfer: Transfer(Transfer) -> TransferRequested(YieldRequested) {
            lead::transfer(core, it), Subject::of(&it.ask.name), |_| Summary::Answered
        }
        /// Makes a ticket by which another session can take a lock over.
        offer: Offer(Offer) -> Offered(Offered) {
            lock::hand_over::offer(core, it), Subject::of(&it.name).by(&it.owner),
            |_| Summary::Answered
        }
        /// Takes a lock over by a ticket.
        claim: Claim(Claim) -> Claimed(Delivery) {
            lock::hand_over::claim(core, it), it.acquire.subject(), Delivery::summary
        }
        /// Describes the leader of an election.
        leader: Leader(LockName) -> LeaderSeen(LeaderSeen) {
            lead::leader(core, it), Subject::of(it), |_| Summary::Answered
        }
    }

    waits {
        /// Waits for a lock.
        acquire: Acquire(Acquire) -> Granted(Delivery) or NotGranted(NotGranted) {
            lock::acquire::acquire(core, it, caller), it.subject(), Delivery::summary
        }
        /// Waits for several locks.
        acquire_all: AcquireAll(AcquireAll) -> GrantedAll(DeliveryAll) or NotGranted(NotGranted) {
            multi::acquire::acquire_all(core, it, caller),
            it.subject(),
            |_| Summary::Granted(None)
        }
        /// Waits for permits.
        acquire_permits: AcquirePermits(AcquirePermits)
            -> PermitsGranted(PermitDelivery) or PermitsNotGranted(PermitsNotGranted) {
            semaphore::acquire::acquire(core, it, caller),
            it.subject(),
            |_| Summary::Granted(None)
        }
        /// Waits until a latch is open.
        await_latch: AwaitLatch(AwaitLatch)
            -> LatchOpened(LatchOpened) or LatchNotOpened(LatchNotOpened) {
            latch::await_latch(core, it, caller), Subject::of(&it.name), |_| Summary::Answered
        }
        /// Waits until a lock is free, without acquiring it.
        await_free: AwaitFree(AwaitFree) -> LockFree(LockFree) or NotGranted(NotGranted) {
            await_free(core, it, caller), Subject::of(&it.name), |_| Summary::Answered
        }
        /// Waits until the caller leads an election.
        campaign: Campaign(Campaign) -> Elected(Elected) or NotGranted(NotGranted) {
            lead::campaign(core, it, caller), it.acquire.subject(), Elected::summary
        }
    }
}

/// Runs an operation to its end and answers it.
#[expect(clippy::manual_async_fn, reason = "it would keep its arguments twice")]
fn run(core: Arc<Core>, operation: Operation, mut reply: Reply) -> impl Future<Output = ()> + Send {
    async move {
        let ended = match &operation {
            Operation::Acquire(request) => {
                let ended = dispatch::run::<calls::Acquire>(&core, request, &mut reply).await;
                ended.map(|ended| ended.map_or_else(Answer::NotGranted, Answer::Granted))
            }
            // This future stays in memory while a lock is waited for; so all else is boxed.
            other => Box::pin(answer(&core, other, &mut reply)).await,
        };
        reply.finish(ended).await;
    }
}

impl Coordinator {
    /// Begins an operation and returns at once; the answers go to `reply`. Whatever happens to the
    /// caller, the operation runs to its end, and undoes itself if nobody takes its grant.
    pub fn submit(&self, operation: Operation, reply: Reply) {
        let (core, name, span) = (Arc::clone(&self.core), operation.name(), operation.span());
        let mut run = Box::pin(run(core, operation, reply).instrument(span));
        // Begins here and not in the task, so that operations begin in order of arrival.
        if run.as_mut().now_or_never().is_none() {
            self.core.tasks.spawn(name, run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of a waiting acquire, besides its ticket in line: with its span it fits into a
    /// block of 1,536 bytes, and the next larger one has 1,792.
    const WAIT_BYTES_MAX: usize = 1496;

    fn size_of_run<F>(_: impl Fn(Arc<Core>, Operation, Reply) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_wait_keeps_nothing_of_its_attempts() {
        let bytes = size_of_run(run);
        assert!(bytes <= WAIT_BYTES_MAX, "{bytes}");
    }
}
