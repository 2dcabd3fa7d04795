//! Asking several servers the same in rounds, where some of them may not answer.

use std::time::Duration;

use deadpool_redis::redis::{RedisError, RedisResult, aio::MultiplexedConnection};
use futures::{StreamExt as _, stream::FuturesUnordered};
use lockkeeper_base::tasks::spawn_detached;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::endpoint::Endpoint;

/// When most servers have answered, the others are waited for as long as this.
const STRAGGLERS_MAX: Duration = Duration::from_millis(50);

/// Unanswered questions in a row after which a connection is given up.
const MISSES_MAX: u32 = 3;

/// A server that is asked, and the connection to it while there is one.
pub(super) struct Asked {
    endpoint: Endpoint,
    connection: Option<MultiplexedConnection>,
    /// Outlives the rounds, which may be too short for it.
    opening: Option<AbortOnDropHandle<RedisResult<MultiplexedConnection>>>,
    misses: u32,
}

/// The answers of a round: those that come before the limit, or soon after most servers have
/// answered.
pub(super) async fn answers<T, E>(
    asking: impl IntoIterator<Item = impl Future<Output = Result<T, E>>>,
    limit: Instant,
) -> Vec<Result<T, E>> {
    let mut asking: FuturesUnordered<_> = asking.into_iter().collect();
    let asked = asking.len();
    let mut answers = Vec::with_capacity(asked);
    let (mut until, mut answered) = (limit, 0);
    while let Ok(Some(answer)) = timeout_at(until, asking.next()).await {
        answered += usize::from(answer.is_ok());
        answers.push(answer);
        if answered * 2 > asked {
            until = until.min(Instant::now() + STRAGGLERS_MAX);
        }
    }
    answers
}

// === impl Asked ===

impl Asked {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            connection: None,
            opening: None,
            misses: 0,
        }
    }

    /// The connection for one more question. If there is none it is opened, which goes on when the
    /// caller no longer waits.
    pub(super) async fn connection<F>(
        &mut self,
        open: impl FnOnce(Endpoint) -> F,
    ) -> RedisResult<MultiplexedConnection>
    where
        F: Future<Output = RedisResult<MultiplexedConnection>> + Send + 'static,
    {
        if self.misses == MISSES_MAX {
            self.give_up();
        }
        let connection = if let Some(connection) = &self.connection {
            connection.clone()
        } else {
            let opening = self.opening.get_or_insert_with(|| {
                let opening = open(self.endpoint.clone());
                AbortOnDropHandle::new(spawn_detached("redis-asked", opening))
            });
            let opened = opening.await;
            self.opening = None;
            let failed = |error| RedisError::from(std::io::Error::other(error));
            self.connection.insert(opened.map_err(failed)??).clone()
        };
        self.misses += 1;
        Ok(connection)
    }

    /// The last question was answered.
    pub(super) fn answered(&mut self) {
        self.misses = 0;
    }

    /// The connection cannot be used any more.
    pub(super) fn give_up(&mut self) {
        self.connection = None;
        self.misses = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures::FutureExt as _;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    async fn round<const N: usize>(said: [Option<Result<u8, ()>>; N]) -> (usize, Duration) {
        let begun = Instant::now();
        let asking = said.map(|said| match said {
            Some(said) => ready(said).boxed(),
            None => pending().boxed(),
        });
        let answers = answers(asking, begun + LIMIT).await;
        (answers.len(), begun.elapsed())
    }

    /// Rounded up to the timer's step.
    const SOON: Duration = Duration::from_millis(51);

    #[tokio::test(start_paused = true)]
    async fn a_round_does_not_wait_for_the_few_that_are_silent() {
        let (answer, failure) = (Some(Ok(1)), Some(Err(())));
        let (came, took) = round([answer, None, answer]).await;
        assert_eq!(came, 2);
        assert!(took <= SOON, "{took:?}");
        // A failure says nothing of what most of them know.
        let (came, took) = round([answer, None, failure]).await;
        assert_eq!(came, 2);
        assert!(took >= LIMIT, "{took:?}");
        let (came, took) = round([answer, failure, failure]).await;
        assert_eq!((came, took), (3, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_connection_is_opened_over_several_rounds() {
        let endpoint = Endpoint::new(&super::super::RedisConfig::default()).unwrap();
        let mut server = Asked::new(endpoint);
        let opened = |_| async {
            tokio::time::sleep(LIMIT).await;
            Err(std::io::Error::other("refused at last").into())
        };
        let begun = Instant::now();
        let mut rounds = 0;
        let refused = loop {
            rounds += 1;
            let limit = Instant::now() + LIMIT / 4;
            if let Ok(outcome) = timeout_at(limit, server.connection(opened)).await {
                break outcome;
            }
        };
        assert!(refused.is_err());
        assert!(rounds > 3 && begun.elapsed() < LIMIT * 2, "{rounds}");
    }
}
