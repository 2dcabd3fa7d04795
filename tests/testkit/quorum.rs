//! Redis servers that know nothing of each other, as a quorum.

use deadpool_redis::redis::Value;
use futures::future::join_all;

use crate::{
    coordinator::{Coordinator, Settings},
    redis_server::{RedisServer, eventually},
};

/// Three or five servers.
pub struct Quorum {
    pub members: Vec<RedisServer>,
}

// === impl Quorum ===

impl Quorum {
    pub async fn start(members: usize) -> Self {
        let members = join_all((0..members).map(|_| RedisServer::start())).await;
        Self { members }
    }

    /// A coordinator's settings on it: short leases, so that much happens.
    pub fn settings(&self) -> Settings {
        let urls: Vec<_> = self.members.iter().map(RedisServer::url).collect();
        Settings::on_quorum(&urls.join(" "))
            .with("session.secret", "a secret of all the coordinators here")
            .with("session.lease", "2s")
    }

    /// A coordinator with all its connections.
    pub async fn coordinator(&self, settings: &Settings) -> Coordinator {
        let coordinator = Coordinator::start(settings).await;
        coordinator.until_connected(self.members.len()).await;
        coordinator
    }

    /// How many of these members have a key.
    pub async fn count_of(&self, which: &[usize], key: &str) -> usize {
        let exists = which.iter().map(|which| async move {
            let member = &self.members[*which];
            member.command(&["EXISTS", key]).await
        });
        let exists = join_all(exists).await;
        exists
            .iter()
            .filter(|answer| **answer == Value::Int(1))
            .count()
    }

    /// So many of these members have a key.
    pub async fn until_count(&self, which: &[usize], key: &str, count: usize) {
        eventually("so many members have it", || async {
            self.count_of(which, key).await == count
        })
        .await;
    }
}
