//! The subscriptions of one server, on a connection of their own that one task owns.
//!
//! The connection is opened when the first channel is wanted. After a loss everything wanted is subscribed again, and then one gap is told:
//! messages are hints, so that some were missed is all that anybody needs to know.

use std::time::Duration;

use bytes::Bytes;
use deadpool_redis::redis::{PushInfo, PushKind, RedisResult, Value, aio::MultiplexedConnection};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    sync::{mpsc, oneshot},
    task::unconstrained,
    time::{Instant, MissedTickBehavior, interval_at, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    endpoint::Endpoint,
    reply,
    subscriptions::{Confirm, Order, Subscriptions},
    target::Target,
};
use crate::{
    host::{HostError, Wake, WakeSender},
    shutdown::spawn_detached,
};

/// Channels in one command, so that the confirmations of a long list do not hold up others.
const CHANNELS_PER_COMMAND_MAX: usize = 1000;

/// Pushes or wishes that are taken before looking at the rest.
const TAKEN_AT_ONCE_MAX: usize = 256;

/// Pauses between attempts to connect double from the first to the second.
const RECONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// The handle of the task. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Subscriber {
    /// Not bounded by itself: whoever subscribes waits for the outcome, and unsubscriptions follow subscriptions.
    wishes: mpsc::UnboundedSender<Wish>,
    _task: AbortOnDropHandle<()>,
}

enum Wish {
    Subscribe(String, Confirm),
    Unsubscribe(String),
    /// Somebody was told that a subscription was not confirmed in time.
    Overdue(String),
}

struct Task {
    target: Target,
    ping_interval: Duration,
    wishes: mpsc::UnboundedReceiver<Wish>,
    wakes: WakeSender,
    subscriptions: Subscriptions,
    pause: Duration,
}

/// Commands that were sent and what became of them.
type Sent = FuturesUnordered<BoxFuture<'static, (Vec<String>, RedisResult<()>)>>;

/// The connection is lost.
struct Lost;

// === impl Subscriber ===

impl Subscriber {
    pub(super) fn new(target: Target, ping_interval: Duration, wakes: WakeSender) -> Self {
        let (sender, wishes) = mpsc::unbounded_channel();
        let subscriptions = Subscriptions::default();
        let pause = RECONNECT_PAUSE.0;
        let task = Task {
            target,
            ping_interval,
            wishes,
            wakes,
            subscriptions,
            pause,
        };
        let task = spawn_detached("redis-subscriber", task.run());
        Self {
            wishes: sender,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Resolves when the server has confirmed a subscription that is still in force, or with an error when the time is over.
    pub(super) async fn subscribe(&self, channel: &str, limit: Duration) -> Result<(), HostError> {
        let (confirm, outcome) = oneshot::channel();
        let _ = self
            .wishes
            .send(Wish::Subscribe(channel.to_owned(), confirm));
        match timeout(limit, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(HostError::Unavailable("unsubscribed meanwhile".into())),
            Err(_) => {
                let _ = self.wishes.send(Wish::Overdue(channel.to_owned()));
                Err(HostError::Unavailable(
                    "the subscription was not confirmed in time".into(),
                ))
            }
        }
    }

    pub(super) fn unsubscribe(&self, channel: &str) {
        let _ = self.wishes.send(Wish::Unsubscribe(channel.to_owned()));
    }
}

// === impl Task ===

impl Task {
    async fn run(mut self) {
        loop {
            while self.subscriptions.is_empty() {
                let Some(wish) = self.wishes.recv().await else {
                    return;
                };
                self.apply(wish);
            }
            let (pushes, incoming) = mpsc::unbounded_channel();
            let connecting = connect(self.target.clone(), pushes);
            match self.applying_wishes(connecting).await {
                None => return,
                Some(Ok((endpoint, connection))) => {
                    tracing::debug!("subscriber connected");
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
            if self.applying_wishes(pause).await.is_none() {
                return;
            }
        }
    }

    /// Waits for something while there is no connection; `None` if the handle was dropped.
    async fn applying_wishes<T>(&mut self, wait: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(wait);
        loop {
            tokio::select! {
                done = &mut wait => return Some(done),
                wish = self.wishes.recv() => {
                    self.apply(wish?);
                }
            }
        }
    }

    fn apply(&mut self, wish: Wish) -> Option<Order> {
        match wish {
            Wish::Subscribe(channel, confirm) => self.subscriptions.want(&channel, confirm),
            Wish::Unsubscribe(channel) => self.subscriptions.unwant(channel),
            Wish::Overdue(channel) => {
                self.subscriptions.overdue(&channel);
                None
            }
        }
    }

    /// Talks over a connection until it is lost.
    async fn serve(
        &mut self,
        connection: MultiplexedConnection,
        mut incoming: mpsc::UnboundedReceiver<PushInfo>,
    ) -> Lost {
        let mut sent = Sent::new();
        let mut pushes = Vec::new();
        let mut wishes = Vec::new();
        let mut ticks = interval_at(Instant::now() + self.ping_interval, self.ping_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Whether anything came in since the last probe was sent. True as well when none was sent.
        let mut heard = true;

        send(&connection, self.subscriptions.connected(), &mut sent);
        loop {
            let mut orders = Vec::new();
            tokio::select! {
                count = incoming.recv_many(&mut pushes, TAKEN_AT_ONCE_MAX) => {
                    if count == 0 {
                        return Lost;
                    }
                    heard = true;
                    for push in pushes.drain(..) {
                        match self.take(push) {
                            Ok(order) => orders.extend(order),
                            Err(Lost) => return Lost,
                        }
                    }
                }
                Some((channels, outcome)) = sent.next(), if !sent.is_empty() => {
                    heard = true;
                    if let Err(error) = outcome {
                        let Ok(error) = error.try_into() else { return Lost };
                        let error = reply::refusal(&error);
                        tracing::warn!(%error, channels = channels.len(), "subscription refused");
                        self.subscriptions.refused(&channels, &error);
                    }
                }
                count = self.wishes.recv_many(&mut wishes, TAKEN_AT_ONCE_MAX) => {
                    if count == 0 {
                        return Lost;
                    }
                    orders.extend(wishes.drain(..).filter_map(|wish| self.apply(wish)));
                }
                _ = ticks.tick() => {
                    if !heard {
                        tracing::warn!("the connection of the subscriptions does not answer");
                        return Lost;
                    }
                    if !self.subscriptions.is_empty() {
                        heard = false;
                        ping(&connection, &mut sent);
                        orders = self.subscriptions.retry();
                    }
                }
            }
            send(&connection, orders, &mut sent);
            if self.subscriptions.take_gap() {
                self.wakes.send(Wake::Gap);
            }
        }
    }

    fn take(&mut self, push: PushInfo) -> Result<Option<Order>, Lost> {
        let mut data = push.data.into_iter().map(|item| match item {
            Value::BulkString(bytes) => bytes,
            _ => Vec::new(),
        });
        let channel = data
            .next()
            .and_then(|name| String::from_utf8(name).ok())
            .unwrap_or_default();
        match push.kind {
            PushKind::Message => {
                let payload = Bytes::from(data.next().unwrap_or_default());
                self.wakes.send(Wake::Message { channel, payload });
            }
            PushKind::Subscribe => {
                self.pause = RECONNECT_PAUSE.0;
                self.subscriptions.subscribed(&channel);
            }
            PushKind::Unsubscribe => return Ok(self.subscriptions.unsubscribed(&channel)),
            PushKind::Disconnection => return Err(Lost),
            _ => {}
        }
        Ok(None)
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
    target.check(&connection).await?;
    Ok((endpoint, connection))
}

/// Sends orders, in their order, as few commands. Confirmations are pushes; what the futures tell is whether the server refused.
fn send(connection: &MultiplexedConnection, orders: Vec<Order>, sent: &mut Sent) {
    let mut orders = orders.into_iter().peekable();
    while let Some(first) = orders.next() {
        let (subscribe, channel) = match first {
            Order::Subscribe(channel) => (true, channel),
            Order::Unsubscribe(channel) => (false, channel),
        };
        let mut channels = vec![channel];
        while channels.len() < CHANNELS_PER_COMMAND_MAX {
            match orders.next_if(|next| matches!(next, Order::Subscribe(_)) == subscribe) {
                Some(Order::Subscribe(channel) | Order::Unsubscribe(channel)) => {
                    channels.push(channel);
                }
                None => break,
            }
        }
        let mut connection = connection.clone();
        hand_over(sent, async move {
            let outcome = if subscribe {
                connection.subscribe(&channels).await
            } else {
                connection.unsubscribe(&channels).await
            };
            // A refusal is of interest for what is wanted.
            (if subscribe { channels } else { Vec::new() }, outcome)
        });
    }
}

fn ping(connection: &MultiplexedConnection, sent: &mut Sent) {
    let mut connection = connection.clone();
    hand_over(sent, async move {
        let answer = connection
            .send_packed_command(&deadpool_redis::redis::cmd("PING"))
            .await
            .map(drop);
        (Vec::new(), answer)
    });
}

/// Polls a command once, which puts it into the connection's queue: that is what keeps commands in order. Unconstrained, because a task that
/// has used up its budget would not get as far.
fn hand_over(
    sent: &mut Sent,
    command: impl Future<Output = (Vec<String>, RedisResult<()>)> + Send + 'static,
) {
    let mut command = unconstrained(command).boxed();
    match command.as_mut().now_or_never() {
        Some(done) => sent.push(std::future::ready(done).boxed()),
        None => sent.push(command),
    }
}
