//! What attackers see of a scene, and how they repeat themselves.

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::future::join_all;
use tempfile::TempDir;
use tokio::{
    task::yield_now,
    time::{Instant, timeout_at},
};

use crate::{
    calls::Connection,
    client::Client,
    form::Form,
    redis_server::RedisServer,
    scene::{Scene, Who},
};

/// A coordinator under attack.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) form: Form,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) redis: Arc<RedisServer>,
    pub(crate) folder: Arc<TempDir>,
}

/// How calls ended.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    done: AtomicUsize,
    refused: AtomicUsize,
}

// === impl Target ===

impl Target {
    pub(crate) fn of(scene: &Scene, form: Form) -> Self {
        Self {
            form,
            address: scene.coordinator.address(),
            admin: scene.admin,
            redis: Arc::clone(&scene.redis),
            folder: Arc::clone(&scene.folder),
        }
    }

    pub(crate) async fn client(&self, who: Who) -> Client {
        who.connect(self.address).await
    }

    pub(crate) async fn connection(&self) -> Connection {
        Connection::open(self.address).await
    }

    /// Repeats something in some tasks at once, each as fast as it can, for as long as the form
    /// says. Each is given its number.
    pub(crate) async fn storm<F>(&self, tasks: usize, call: impl Fn(usize) -> F) -> Tally
    where
        F: Future<Output = bool>,
    {
        let (tally, until) = (Tally::default(), Instant::now() + self.form.attack);
        let again = async |task: usize| {
            // One that is ready at once is never too late for its time limit.
            while Instant::now() < until {
                match timeout_at(until, call(task)).await {
                    Ok(done) => tally.count(done),
                    Err(_elapsed) => return,
                }
                yield_now().await;
            }
        };
        join_all((0..tasks).map(again)).await;
        tally
    }
}

// === impl Tally ===

impl Tally {
    pub(crate) fn count(&self, done: bool) {
        let of = if done { &self.done } else { &self.refused };
        of.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = self.refused.load(Ordering::Relaxed);
        write!(f, "{} answered, {refused} refused", self.done())
    }
}
