//! The subscriptions of one server, on a connection of their own that one task owns.
//!
//! The connection is opened when the first channel is wanted. After a loss everything wanted is
//! subscribed again, and then one gap is sent: messages are hints, so that some were missed is all
//! that a caller needs to know.

use std::time::Duration;

use bytes::Bytes;
use deadpool_redis::redis::{PushInfo, PushKind, Value, aio::MultiplexedConnection};
use futures::{StreamExt as _, TryFutureExt as _, future::join_all};
use lockkeeper_base::tasks::spawn_detached;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, MissedTickBehavior, interval_at, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    endpoint::Endpoint,
    orders::{Answered, BothKinds, Kind, Orders, Sent, ping, send},
    reply,
    subscriptions::{Confirm, Order},
    target::{self, Target},
};
use crate::host::{HostError, Wake, WakeSender, metrics::Purpose};

/// Pushes or changes that are taken before looking at the rest.
const TAKEN_AT_ONCE_MAX: usize = 256;

/// Pauses between attempts to connect double from the first to the second.
const RECONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// The handle of the task. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Subscriber {
    /// Not bounded by itself: subscribers wait for the outcome, and unsubscriptions follow
    /// subscriptions.
    changes: mpsc::UnboundedSender<SubscriptionChange>,
    kinds: &'static [Kind],
    _task: AbortOnDropHandle<()>,
}

enum SubscriptionChange {
    Subscribe(Kind, String, Confirm),
    Unsubscribe(Kind, String),
    /// A caller got an error: the subscription was not confirmed in time.
    Overdue(Kind, String),
}

struct Task {
    target: Target,
    ping_interval: Duration,
    changes: mpsc::UnboundedReceiver<SubscriptionChange>,
    wakes: WakeSender,
    subscriptions: BothKinds,
    pause: Duration,
    /// The sharded message that came last, if nothing has come since: the plain one that follows it
    /// is the same once more.
    heard_sharded: Option<(String, Bytes)>,
}

/// The connection is lost.
struct Lost;

// === impl Subscriber ===

impl Subscriber {
    /// Hears plain messages.
    pub(super) fn new(target: Target, ping_interval: Duration, wakes: WakeSender) -> Self {
        Self::of(&[Kind::Plain], target, ping_interval, wakes)
    }

    /// Hears plain and sharded messages, as far as the server knows the latter.
    pub(super) fn of_both_kinds(
        target: Target,
        ping_interval: Duration,
        wakes: WakeSender,
    ) -> Self {
        Self::of(&[Kind::Plain, Kind::Sharded], target, ping_interval, wakes)
    }

    fn of(
        kinds: &'static [Kind],
        target: Target,
        ping_interval: Duration,
        wakes: WakeSender,
    ) -> Self {
        let (sender, changes) = mpsc::unbounded_channel();
        let subscriptions = BothKinds::default();
        let pause = RECONNECT_PAUSE.0;
        let task = Task {
            target,
            ping_interval,
            changes,
            wakes,
            subscriptions,
            pause,
            heard_sharded: None,
        };
        let task = spawn_detached("redis-subscriber", task.run());
        Self {
            changes: sender,
            kinds,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Resolves when the server has confirmed a subscription that is still in force, or with an
    /// error when the time is over. Comes after all earlier changes, whenever it is polled.
    pub(super) fn subscribe(
        &self,
        channel: &str,
        limit: Duration,
    ) -> impl Future<Output = Result<(), HostError>> + Send + use<> {
        let (changes, kinds, channel) = (self.changes.clone(), self.kinds, channel.to_owned());
        let outcomes = kinds.iter().map(|kind| {
            let (confirm, outcome) = oneshot::channel();
            let change = SubscriptionChange::Subscribe(*kind, channel.clone(), confirm);
            let _ = changes.send(change);
            async move {
                let unsubscribed = || HostError::Unavailable("unsubscribed meanwhile".into());
                outcome.await.unwrap_or_else(|_| Err(unsubscribed()))
            }
        });
        let outcomes = join_all(outcomes);
        async move {
            if let Ok(outcomes) = timeout(limit, outcomes).await {
                return outcomes.into_iter().collect();
            }
            for kind in kinds {
                let _ = changes.send(SubscriptionChange::Overdue(*kind, channel.clone()));
            }
            Err(HostError::Unavailable(
                "the subscription was not confirmed in time".into(),
            ))
        }
    }

    pub(super) fn unsubscribe(&self, channel: &str) {
        for kind in self.kinds {
            let change = SubscriptionChange::Unsubscribe(*kind, channel.to_owned());
            let _ = self.changes.send(change);
        }
    }
}

// === impl Task ===

impl Task {
    async fn run(mut self) {
        loop {
            while self.subscriptions.is_empty() {
                let Some(change) = self.changes.recv().await else {
                    return;
                };
                self.apply(change);
            }
            let (pushes, incoming) = mpsc::unbounded_channel();
            let connecting = connect(self.target.clone(), pushes);
            match self.applying_changes(connecting).await {
                None => return,
                Some(Ok((endpoint, connection))) => {
                    tracing::debug!("subscriber connected");
                    let _open = endpoint.opened(Purpose::Subscriptions);
                    let target = self.target.clone();
                    tokio::select! {
                        Lost = self.serve(connection, incoming) => {}
                        () = target.superseded(&endpoint) => {}
                    }
                    self.subscriptions.disconnected();
                }
                Some(Err(error)) => {
                    tracing::debug!(error, "subscriber cannot connect");
                    self.subscriptions
                        .fail_waiting(&HostError::Unavailable(error));
                }
            }
            let pause = sleep(self.pause);
            self.pause = (self.pause * 2).min(RECONNECT_PAUSE.1);
            if self.applying_changes(pause).await.is_none() {
                return;
            }
        }
    }

    /// Waits for something while there is no connection; `None` if the handle was dropped.
    async fn applying_changes<T>(&mut self, wait: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(wait);
        loop {
            tokio::select! {
                done = &mut wait => return Some(done),
                change = self.changes.recv() => {
                    self.apply(change?);
                }
            }
        }
    }

    fn apply(&mut self, change: SubscriptionChange) -> Option<(Kind, Order)> {
        let (kind, order) = match change {
            SubscriptionChange::Subscribe(kind, channel, confirm) => {
                let of_kind = self.subscriptions.of(kind);
                (kind, of_kind.want(&channel, confirm))
            }
            SubscriptionChange::Unsubscribe(kind, channel) => {
                (kind, self.subscriptions.of(kind).unwant(channel))
            }
            SubscriptionChange::Overdue(kind, channel) => {
                self.subscriptions.of(kind).overdue(&channel);
                (kind, None)
            }
        };
        order.map(|order| (kind, order))
    }

    /// Talks over a connection until it is lost.
    async fn serve(
        &mut self,
        connection: MultiplexedConnection,
        mut incoming: mpsc::UnboundedReceiver<PushInfo>,
    ) -> Lost {
        let mut sent = Sent::new();
        let mut pushes = Vec::new();
        let mut changes = Vec::new();
        let mut ticks = interval_at(Instant::now() + self.ping_interval, self.ping_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Whether anything came in since the last probe was sent. True as well when none was sent.
        let mut heard = true;

        let mut orders = self.subscriptions.connected();
        send(&connection, &mut orders, &mut sent);
        loop {
            tokio::select! {
                count = incoming.recv_many(&mut pushes, TAKEN_AT_ONCE_MAX) => {
                    if count == 0 {
                        return Lost;
                    }
                    heard = true;
                    if pushes.drain(..).any(|push| self.take(push).is_err()) {
                        return Lost;
                    }
                }
                Some(answered) = sent.next(), if !sent.is_empty() => {
                    heard = true;
                    match self.answered(answered) {
                        Ok(again) => orders.extend(again),
                        Err(Lost) => return Lost,
                    }
                }
                count = self.changes.recv_many(&mut changes, TAKEN_AT_ONCE_MAX) => {
                    if count == 0 {
                        return Lost;
                    }
                    orders.extend(changes.drain(..).filter_map(|change| self.apply(change)));
                }
                _ = ticks.tick() => {
                    if !heard {
                        tracing::warn!("the connection of the subscriptions does not answer");
                        return Lost;
                    }
                    if !self.subscriptions.is_empty() {
                        heard = false;
                        ping(&connection, &mut sent);
                        orders.extend(self.subscriptions.retry());
                    }
                }
            }
            send(&connection, &mut orders, &mut sent);
            if self.subscriptions.take_gap() {
                self.wakes.send(Wake::Gap);
            }
        }
    }

    /// Takes note of what became of a command. What it returns is to be sent because of that.
    fn answered(&mut self, answered: Answered) -> Result<Orders, Lost> {
        let Err(error) = answered.outcome else {
            return Ok(Orders::new());
        };
        let error = reply::refusal(&error.try_into().map_err(|_| Lost)?);
        let Answered { kind, channels, .. } = answered;
        let subscriptions = self.subscriptions.of(kind);
        if kind == Kind::Sharded && reply::is_unknown_command(&error) {
            // Such messages cannot be published there, so none is missed.
            for channel in &channels {
                if answered.is_unsubscription {
                    subscriptions.unsubscribed(channel);
                } else {
                    subscriptions.subscribed(channel);
                }
            }
        } else if answered.is_unsubscription {
            // It had ended without being asked for, so answers no longer belong to what they seem
            // to.
            return Err(Lost);
        } else {
            let again = subscriptions.refused(&channels, &error);
            if let [channel] = &channels[..]
                && subscriptions.is_newly_refused(channel)
            {
                // Its slot is elsewhere, where it is subscribed when that is known.
                if matches!(&error, HostError::Rejected { code, .. } if code == "MOVED") {
                    tracing::debug!(%error, channel, "the channel's slot is elsewhere");
                } else {
                    tracing::warn!(%error, channel, "subscription refused");
                }
            }
            return Ok(again.into_iter().map(|order| (kind, order)).collect());
        }
        Ok(Orders::new())
    }

    fn take(&mut self, push: PushInfo) -> Result<(), Lost> {
        let mut data = push.data.into_iter().map(|item| match item {
            Value::BulkString(bytes) => bytes,
            _ => Vec::new(),
        });
        let channel = data
            .next()
            .and_then(|name| String::from_utf8(name).ok())
            .unwrap_or_default();
        let heard_sharded = self.heard_sharded.take();
        match push.kind {
            PushKind::Message => {
                let payload = Bytes::from(data.next().unwrap_or_default());
                let heard = (channel, payload);
                if heard_sharded.as_ref() != Some(&heard) {
                    let (channel, payload) = heard;
                    self.wakes.send(Wake::Message { channel, payload });
                }
            }
            PushKind::SMessage => {
                let payload = Bytes::from(data.next().unwrap_or_default());
                self.heard_sharded = Some((channel.clone(), payload.clone()));
                self.wakes.send(Wake::Message { channel, payload });
            }
            PushKind::Subscribe => {
                self.pause = RECONNECT_PAUSE.0;
                self.subscriptions.of(Kind::Plain).subscribed(&channel);
            }
            PushKind::SSubscribe => {
                self.subscriptions.of(Kind::Sharded).subscribed(&channel);
            }
            PushKind::Unsubscribe => return self.unsubscribed(Kind::Plain, &channel),
            PushKind::SUnsubscribe => return self.unsubscribed(Kind::Sharded, &channel),
            PushKind::Disconnection => return Err(Lost),
            _ => {}
        }
        Ok(())
    }

    /// Takes note of the end of a subscription. If the server ended it by itself, as when a slot
    /// has moved, the client library takes this for the answer to whatever was asked last, so a new
    /// connection is needed.
    fn unsubscribed(&mut self, kind: Kind, channel: &str) -> Result<(), Lost> {
        let was_asked = self.subscriptions.of(kind).unsubscribed(channel);
        was_asked.then_some(()).ok_or(Lost)
    }
}

async fn connect(
    target: Target,
    pushes: mpsc::UnboundedSender<PushInfo>,
) -> Result<(Endpoint, MultiplexedConnection), String> {
    target.first_named().await;
    let endpoint = target.endpoint()?;
    let connection = endpoint.connect(pushes).await;
    let connection = connection.map_err(|error| reply::connect_failure(&error))?;
    let (mut asking, questions) = (connection.clone(), target::questions());
    let asked = asking
        .send_packed_commands(&questions, 0, questions.len())
        .map_err(|error| reply::connect_failure(&error));
    target.check(&endpoint, asked).await?;
    Ok((endpoint, connection))
}

#[cfg(test)]
#[path = "subscriber_tests.rs"]
mod tests;
