//! Runs operations and records how they end.

use std::{future::Future, sync::Arc};

use lockkeeper_base::{
    busy_poll::{self, Next},
    tasks::DetachOnDrop,
};
use tokio::time::Instant;

use crate::{
    core::Core,
    error::Error,
    metrics::labels::OperationName,
    spans,
    summary::{Subject, Summary},
};

/// One kind of operation.
pub(crate) trait Call: 'static {
    /// A validated request.
    type Request: Send + Sync + 'static;
    /// The caller that is notified of a wait; `()` if it never waits.
    type Caller: Send;
    /// The last answer.
    type Answer: Send + 'static;

    /// For logs and task names.
    const NAME: &'static str;
    /// None if it may wait.
    const METRIC: Option<OperationName>;

    fn subject(request: &Self::Request) -> Subject<'_>;

    fn summary(answer: &Self::Answer) -> Summary;

    /// Runs to its end.
    fn run(
        core: &Arc<Core>,
        request: &Self::Request,
        caller: &mut Self::Caller,
    ) -> impl Future<Output = Result<Self::Answer, Error>> + Send;
}

/// Runs an operation to its end and records it.
pub(crate) async fn run<C: Call>(
    core: &Arc<Core>,
    request: &C::Request,
    caller: &mut C::Caller,
) -> Result<C::Answer, Error> {
    let begun = Instant::now();
    busy_poll::expect(Next::Answer);
    let answer = C::run(core, request, caller).await;
    busy_poll::expect(Next::Operation);
    let (subject, ended) = (C::subject(request), answer.as_ref().map(C::summary));
    core.metrics.ended(C::METRIC, subject, ended, begun);
    spans::ended(C::NAME, subject, ended);
    answer
}

/// An operation that does not wait, and what `convert` makes of its answer. It begins when first
/// polled, and then runs to its end, but without a task while the caller waits.
pub(crate) fn ask<C: Call<Caller = ()>, T: Send + 'static>(
    core: &Arc<Core>,
    request: C::Request,
    convert: fn(Result<C::Answer, Error>) -> T,
) -> DetachOnDrop<T> {
    let span = spans::of(C::NAME, C::subject(&request));
    let asked = Arc::clone(core);
    // Made where it stays. `Box::pin` would copy it there, and it has about 2 kB.
    let room = Box::new_uninit();
    let asking = Box::write(room, async move {
        convert(run::<C>(&asked, &request, &mut ()).await)
    });
    let work = core.tasks.detach_on_drop(C::NAME, Box::into_pin(asking));
    work.in_span(span)
}
