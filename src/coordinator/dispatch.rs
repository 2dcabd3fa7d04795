//! Runs operations, from RPCs and from frames of a session's stream alike.

use std::sync::Arc;

use lockkeeper_base::busy_poll::{self, Next};
use tokio::time::Instant;

use crate::{
    core::Core,
    error::Error,
    latch,
    lock::{
        acquire::{acquire, try_acquire},
        delivery::Delivery,
        describe::describe,
        outcome::NotGranted,
        release::release,
        renew::{check_token, renew},
    },
    multi::{
        acquire::{acquire_all, try_acquire_all},
        release::release_all,
    },
    operation::{Answer, Operation},
    reply::Reply,
    semaphore, spans,
};

/// Runs an operation to its end and answers it.
pub(crate) async fn run(core: Arc<Core>, operation: Operation, mut reply: Reply) {
    let begun = Instant::now();
    busy_poll::expect(Next::Answer);
    let answer = match &operation {
        Operation::Acquire(request) => granted(acquire(&core, request, &mut reply).await),
        // This future stays in memory while a lock is waited for; so everything else is boxed.
        other => Box::pin(answer(&core, other, &mut reply)).await,
    };
    busy_poll::expect(Next::Operation);
    core.metrics.ended(&operation, &answer, begun);
    spans::ended(&operation, &answer);
    reply.finish(answer).await;
}

/// Runs an operation that does not wait. The frequent ones are separate: the others are boxed, or
/// each call would carry their state.
pub(crate) async fn ask(core: Arc<Core>, operation: Operation) -> Answer {
    let begun = Instant::now();
    busy_poll::expect(Next::Answer);
    let answer = match &operation {
        Operation::TryAcquire(request) => try_acquire(&core, request).await.map(Answer::Tried),
        Operation::Release(request) => release(&core, request).await.map(Answer::Released),
        other => Box::pin(answer(&core, other, &mut Reply::unheard())).await,
    };
    busy_poll::expect(Next::Operation);
    core.metrics.ended(&operation, &answer, begun);
    spans::ended(&operation, &answer);
    answer.unwrap_or_else(Answer::Failed)
}

async fn answer(
    core: &Arc<Core>,
    operation: &Operation,
    reply: &mut Reply,
) -> Result<Answer, Error> {
    match operation {
        Operation::Acquire(request) => granted(Box::pin(acquire(core, request, reply)).await),
        Operation::TryAcquire(request) => try_acquire(core, request).await.map(Answer::Tried),
        Operation::AcquireAll(request) => {
            let ended = Box::pin(acquire_all(core, request, reply)).await?;
            Ok(ended.map_or_else(Answer::NotGranted, Answer::GrantedAll))
        }
        Operation::TryAcquireAll(request) => {
            let tried = try_acquire_all(core, request).await;
            tried.map(Answer::TriedAll)
        }
        Operation::Release(request) => release(core, request).await.map(Answer::Released),
        Operation::ReleaseAll(request) => {
            let released = release_all(core, request).await;
            released.map(Answer::ReleasedAll)
        }
        Operation::Renew(request) => renew(core, request).await.map(Answer::Renewed),
        Operation::Describe(name) => describe(core, name).await.map(Answer::Described),
        Operation::CheckToken(name, token) => {
            let checked = check_token(core, name, *token).await;
            checked.map(Answer::TokenChecked)
        }
        Operation::Permits(operation) => {
            let answer = semaphore::run::run(core, operation, reply).await;
            answer.map(Answer::Permits)
        }
        Operation::Latch(operation) => {
            let answer = latch::run(core, operation, reply).await;
            answer.map(Answer::Latch)
        }
    }
}

fn granted(ended: Result<Result<Delivery, NotGranted>, Error>) -> Result<Answer, Error> {
    ended.map(|ended| ended.map_or_else(Answer::NotGranted, Answer::Granted))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of a waiting acquire, besides its ticket in line.
    const WAIT_BYTES_MAX: usize = 2048;

    fn size_of_run<F>(_: impl Fn(Arc<Core>, Operation, Reply) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_wait_keeps_nothing_of_its_attempts() {
        let bytes = size_of_run(run);
        assert!(bytes <= WAIT_BYTES_MAX, "{bytes}");
    }
}
