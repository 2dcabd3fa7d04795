//! What a Redisson client does with its `RLock`, as far as others can see it: the same keys,
//! fields, answers and messages, by scripts of this test.

use deadpool_redis::redis::{
    Client, Script,
    aio::{MultiplexedConnection, PubSub},
};
use futures::StreamExt as _;
use uuid::Uuid;

use crate::prelude::*;

/// How long a message may take that must come.
const PATIENCE: Duration = Duration::from_secs(15);

/// Free, or ours: one more hold, and the whole lease from now. Otherwise what is left of the
/// holder's.
const ACQUIRE: &str = "
    local is_free = redis.call('exists', KEYS[1]) == 0
    if is_free or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
        redis.call('hincrby', KEYS[1], ARGV[1], 1)
        redis.call('pexpire', KEYS[1], ARGV[2])
        return nil
    end
    return redis.call('pttl', KEYS[1])";

/// Nil: not ours. 0: still held. 1: free, and said so.
const UNLOCK: &str = "
    if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
        return nil
    end
    if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 0
    end
    redis.call('del', KEYS[1])
    redis.call('publish', KEYS[2], '0')
    return 1";

/// One thread of a Redisson client.
pub(crate) struct RedissonClient {
    connection: MultiplexedConnection,
    url: String,
    pub(crate) owner: String,
}

/// A subscription to a lock's channel.
pub(crate) struct Messages(PubSub);

/// The channel of a lock, by Redisson's rule.
pub(crate) fn channel(name: &str) -> String {
    if name.contains('{') {
        format!("redisson_lock__channel:{name}")
    } else {
        format!("redisson_lock__channel:{{{name}}}")
    }
}

// === impl RedissonClient ===

impl RedissonClient {
    pub(crate) async fn connect(server: &RedisServer) -> Self {
        let url = server.url();
        let client = Client::open(url.as_str()).unwrap();
        Self {
            connection: client.get_multiplexed_async_connection().await.unwrap(),
            url,
            owner: format!("{}:1", Uuid::new_v4()),
        }
    }

    /// None: acquired. Otherwise the milliseconds left to the holder.
    pub(crate) async fn acquire(&mut self, name: &str, lease: Duration) -> Option<i64> {
        let lease = u64::try_from(lease.as_millis()).unwrap();
        let script = Script::new(ACQUIRE);
        let mut call = script.key(name);
        call.arg(&self.owner).arg(lease);
        call.invoke_async(&mut self.connection).await.unwrap()
    }

    /// None: not the owner. Otherwise whether the lock is free now.
    pub(crate) async fn unlock(&mut self, name: &str) -> Option<bool> {
        let script = Script::new(UNLOCK);
        let mut call = script.key(name);
        call.key(channel(name)).arg(&self.owner).arg(30_000);
        call.invoke_async(&mut self.connection).await.unwrap()
    }

    /// Listens to what is published for a lock from now on.
    pub(crate) async fn subscribe(&self, name: &str) -> Messages {
        let client = Client::open(self.url.as_str()).unwrap();
        let mut pubsub = client.get_async_pubsub().await.unwrap();
        pubsub.subscribe(channel(name)).await.unwrap();
        Messages(pubsub)
    }
}

// === impl Messages ===

impl Messages {
    /// The next message, which Redisson would read as a number.
    pub(crate) async fn next(&mut self) -> i64 {
        let mut messages = self.0.on_message();
        let message = timeout(PATIENCE, messages.next()).await.expect("a message");
        let text: String = message.unwrap().get_payload().unwrap();
        text.parse().unwrap()
    }
}
