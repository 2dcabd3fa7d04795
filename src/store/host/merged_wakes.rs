//! The messages of several hosts that are independent of each other, as one stream. What is
//! published on one of them arrives from that one only.

use std::{collections::HashMap, sync::Arc};

use futures::future::join_all;
use lockkeeper_base::tasks::spawn_detached;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{Connected, HostError, ScriptHost, Wake, WakeSender};

/// The subscriptions on one host or on several.
#[derive(Clone, Debug)]
pub struct Subscriptions {
    hosts: Vec<Arc<dyn ScriptHost>>,
    /// How often each channel is subscribed to.
    wanted: Arc<Mutex<HashMap<Box<str>, usize>>>,
}

// === impl Subscriptions ===

impl Subscriptions {
    /// The hosts' subscriptions and the one stream of their wakes. A gap of one is a gap of all.
    pub fn of(connected: Vec<Connected>) -> (Self, mpsc::Receiver<Wake>) {
        let (hosts, mut streams): (Vec<_>, Vec<_>) = connected.into_iter().unzip();
        let wakes = if streams.len() == 1 {
            streams.remove(0)
        } else {
            let (sender, wakes) = WakeSender::channel();
            for stream in streams {
                spawn_detached("wakes-of-one", forward(stream, sender.clone()));
            }
            wakes
        };
        let wanted = Arc::default();
        (Self { hosts, wanted }, wakes)
    }

    /// As [`ScriptHost::subscribe`] on all hosts; success means that a majority of them has
    /// confirmed. The others go on trying. Each call needs its own
    /// [`unsubscribe`](Self::unsubscribe), whether it succeeds or not.
    pub async fn subscribe(&self, channel: &str) -> Result<(), HostError> {
        *self.wanted.lock().entry(channel.into()).or_default() += 1;
        if let [host] = self.hosts.as_slice() {
            return host.subscribe(channel).await;
        }
        let (answers, mut answered) = mpsc::unbounded_channel();
        let calls = self.hosts.iter().map(|host| {
            let (host, channel, answers) = (Arc::clone(host), channel.to_owned(), answers.clone());
            async move {
                let _ = answers.send(host.subscribe(&channel).await);
            }
        });
        spawn_detached("subscribe-all", join_all(calls.collect::<Vec<_>>()));
        drop(answers);
        let majority = self.hosts.len() / 2 + 1;
        let (mut confirmed, mut failed) = (0, None);
        while let Some(answer) = answered.recv().await {
            match answer {
                Ok(()) => confirmed += 1,
                Err(error) => failed = Some(error),
            }
            if confirmed == majority {
                return Ok(());
            }
        }
        Err(failed.unwrap_or_else(|| HostError::Unavailable("no host confirmed".to_owned())))
    }

    /// As [`ScriptHost::unsubscribe`] on all hosts, once nobody else has subscribed to the channel.
    pub fn unsubscribe(&self, channel: &str) {
        let mut wanted = self.wanted.lock();
        if let Some(others) = wanted.get_mut(channel)
            && *others > 1
        {
            *others -= 1;
            return;
        }
        wanted.remove(channel);
        // Under the lock, or it could undo a subscription that begins now.
        for host in &self.hosts {
            host.unsubscribe(channel);
        }
    }
}

async fn forward(mut stream: mpsc::Receiver<Wake>, sender: WakeSender) {
    while let Some(wake) = stream.recv().await {
        if sender.is_closed() {
            return;
        }
        sender.send(wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::embedded::EmbeddedStore;

    #[tokio::test]
    async fn a_channel_is_heard_until_the_last_of_its_subscribers_leaves() {
        let store = EmbeddedStore::default();
        let (subscriptions, mut wakes) = Subscriptions::of(vec![store.connect()]);
        subscriptions.subscribe("channel").await.unwrap();
        subscriptions.clone().subscribe("channel").await.unwrap();
        subscriptions.unsubscribe("channel");
        publish(&store);
        assert!(matches!(wakes.recv().await, Some(Wake::Message { .. })));
        subscriptions.unsubscribe("channel");
        assert_eq!(store.subscription_count("channel"), 0);
        assert!(subscriptions.wanted.lock().is_empty());
    }

    fn publish(store: &EmbeddedStore) {
        store.command(&[b"PUBLISH", b"channel", b"0"]).unwrap();
    }

    #[tokio::test]
    async fn a_message_of_any_host_arrives_and_none_after_the_end() {
        let stores: [EmbeddedStore; 3] = std::array::from_fn(|_| EmbeddedStore::default());
        let connected = stores.iter().map(EmbeddedStore::connect).collect();
        let (subscriptions, mut wakes) = Subscriptions::of(connected);
        subscriptions.subscribe("channel").await.unwrap();
        for store in &stores {
            publish(store);
            let channel = "channel".to_owned();
            let payload = "0".into();
            assert_eq!(wakes.recv().await, Some(Wake::Message { channel, payload }));
        }
        subscriptions.unsubscribe("channel");
        for store in &stores {
            publish(store);
            assert_eq!(store.subscription_count("channel"), 0);
        }
        drop(subscriptions);
        assert_eq!(wakes.recv().await, None);
    }
}
