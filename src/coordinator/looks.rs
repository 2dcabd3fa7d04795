//! Reads of the store that any number of callers may ask for: one at a time for each name, whose
//! answer all get that asked before it began. A name of which everybody wants to know costs the
//! store no more than one read after the other.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use lockkeeper_store::script::CallError;
use parking_lot::Mutex;

use crate::types::LockName;

/// Names that are remembered before those are forgotten that nobody asks for any more.
const NAMES_KEPT: usize = 64;

type Answer<T> = BoxFuture<'static, Result<T, CallError>>;

/// The name, and how much is wanted to be known of it.
type Question = (LockName, u32);

/// The reads that are under way.
#[derive(Debug)]
pub(crate) struct Looks<T: Clone> {
    last: Mutex<HashMap<Question, Look<T>>>,
}

/// The newest read of a name.
#[derive(Debug)]
struct Look<T: Clone> {
    begun: Arc<AtomicBool>,
    answer: WeakShared<Answer<T>>,
}

impl<T: Clone> Default for Looks<T> {
    fn default() -> Self {
        Self {
            last: Mutex::default(),
        }
    }
}

// === impl Looks ===

impl<T: Clone + Send + Sync + 'static> Looks<T> {
    /// What the store answers to a read that begins after this call.
    pub(crate) async fn ask<F>(
        &self,
        name: &LockName,
        much: u32,
        read: impl FnOnce() -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>> + Send + 'static,
    {
        let answer = self.join((name.clone(), much), read);
        answer.await
    }

    fn join<F>(&self, question: Question, read: impl FnOnce() -> F) -> Shared<Answer<T>>
    where
        F: Future<Output = Result<T, CallError>> + Send + 'static,
    {
        let mut last = self.last.lock();
        let known = last.get(&question);
        let before = known.and_then(|look| Some((look, look.answer.upgrade()?)));
        if let Some((look, answer)) = &before
            && !look.begun.load(Ordering::Relaxed)
        {
            return answer.clone();
        }
        let before = before.map(|(_, answer)| answer);
        let begun = Arc::new(AtomicBool::new(false));
        let (begins, read) = (Arc::clone(&begun), read());
        let answer = async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            begins.store(true, Ordering::Relaxed);
            read.await
        };
        let answer = answer.boxed().shared();
        if last.len() >= NAMES_KEPT {
            last.retain(|_, look| look.answer.upgrade().is_some());
        }
        if let Some(weak) = answer.downgrade() {
            let look = Look {
                begun,
                answer: weak,
            };
            last.insert(question, look);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::Notify;

    use super::*;
    use crate::types::tests::limits;

    fn name(name: &str) -> LockName {
        LockName::parse(name, &limits()).unwrap()
    }

    #[tokio::test]
    async fn those_who_ask_during_a_read_share_the_next_one() {
        let (looks, go) = (Looks::<usize>::default(), Arc::new(Notify::new()));
        let name = name("a");
        let reads = Arc::new(AtomicUsize::new(0));
        let ask = || {
            looks.ask(&name, 10, || {
                let (go, reads) = (Arc::clone(&go), Arc::clone(&reads));
                async move {
                    let number = reads.fetch_add(1, Ordering::Relaxed) + 1;
                    go.notified().await;
                    Ok(number)
                }
            })
        };
        let mut first = Box::pin(ask());
        assert!(futures::poll!(&mut first).is_pending());
        let mut others = futures::future::join_all((0..100).map(|_| ask()));
        assert!(futures::poll!(&mut others).is_pending());
        go.notify_one();
        assert_eq!(first.await, Ok(1));
        assert!(futures::poll!(&mut others).is_pending());
        go.notify_one();
        assert!(others.await.into_iter().all(|answer| answer == Ok(2)));
        assert_eq!(reads.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_caller_that_leaves_keeps_nobody_waiting() {
        let looks = Looks::<usize>::default();
        let name = name("a");
        let mut left = Box::pin(looks.ask(&name, 10, || async {
            tokio::task::yield_now().await;
            Ok(1)
        }));
        assert!(futures::poll!(&mut left).is_pending());
        let stays = looks.ask(&name, 10, || async { Ok(2) });
        drop(left);
        assert_eq!(stays.await, Ok(2));
    }

    #[tokio::test]
    async fn names_that_nobody_asks_for_are_forgotten() {
        let looks = Looks::<usize>::default();
        for number in 0..10 * NAMES_KEPT {
            let name = name(&number.to_string());
            assert_eq!(looks.ask(&name, 1, || async { Ok(7) }).await, Ok(7));
        }
        assert!(looks.last.lock().len() <= NAMES_KEPT);
    }

    #[tokio::test]
    async fn many_names_at_once_are_forgotten_when_nobody_asks_for_them_any_more() {
        let looks = Looks::<usize>::default();
        let names: Vec<_> = (0..2 * NAMES_KEPT)
            .map(|it| name(&it.to_string()))
            .collect();
        let ask = |name| looks.ask(name, 1, || async { Ok(7) });
        let mut asked: Vec<_> = names.iter().map(|name| Box::pin(ask(name))).collect();
        for one in &mut asked {
            // The read has not begun before its future is polled.
            assert!(futures::poll!(one).is_ready());
        }
        let pending = |name| looks.ask(name, 2, futures::future::pending);
        let mut kept: Vec<_> = names.iter().map(|name| Box::pin(pending(name))).collect();
        for one in &mut kept {
            assert!(futures::poll!(one).is_pending());
        }
        assert!(looks.last.lock().len() >= names.len());
        drop(kept);
        assert_eq!(ask(&names[0]).await, Ok(7));
        assert!(looks.last.lock().len() <= NAMES_KEPT);
    }
}
