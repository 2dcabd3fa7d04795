//! How subscriptions are sent to a server, and the two kinds of them.

use std::{collections::VecDeque, mem::discriminant};

use deadpool_redis::redis::{RedisResult, Value, aio::MultiplexedConnection, cmd};
use futures::{FutureExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::task::unconstrained;

use super::{
    endpoint::COMMANDS_QUEUED_MAX,
    subscriptions::{Order, Subscriptions},
};
use crate::host::HostError;

/// Channels in one command, so that the confirmations of a long list do not hold up others.
const CHANNELS_PER_COMMAND_MAX: usize = 1000;

/// Which messages of a channel are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Those of `PUBLISH`.
    Plain,
    /// Those of `SPUBLISH`, which stay with the nodes that have the channel's slot.
    Sharded,
}

/// The subscriptions of both kinds on one connection.
#[derive(Debug, Default)]
pub(super) struct BothKinds {
    plain: Subscriptions,
    sharded: Subscriptions,
}

/// What a command was for, and what became of it.
pub(super) struct Answered {
    pub(super) kind: Kind,
    pub(super) channels: Vec<String>,
    pub(super) is_unsubscription: bool,
    pub(super) outcome: RedisResult<()>,
}

/// Commands that were sent.
pub(super) type Sent = FuturesUnordered<BoxFuture<'static, Answered>>;

/// What is to be sent, the oldest first.
pub(super) type Orders = VecDeque<(Kind, Order)>;

// === impl BothKinds ===

impl BothKinds {
    pub(super) fn of(&mut self, kind: Kind) -> &mut Subscriptions {
        match kind {
            Kind::Plain => &mut self.plain,
            Kind::Sharded => &mut self.sharded,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.sharded.is_empty()
    }

    pub(super) fn take_gap(&mut self) -> bool {
        let plain = self.plain.take_gap();
        self.sharded.take_gap() || plain
    }

    pub(super) fn connected(&mut self) -> Orders {
        self.orders(Subscriptions::connected)
    }

    pub(super) fn retry(&mut self) -> Orders {
        self.orders(Subscriptions::retry)
    }

    pub(super) fn disconnected(&mut self) {
        self.plain.disconnected();
        self.sharded.disconnected();
    }

    pub(super) fn fail_waiting(&mut self, error: &HostError) {
        self.plain.fail_waiting(error);
        self.sharded.fail_waiting(error);
    }

    fn orders(&mut self, of: impl Fn(&mut Subscriptions) -> Vec<Order>) -> Orders {
        let plain = of(&mut self.plain).into_iter();
        let plain = plain.map(|order| (Kind::Plain, order));
        let sharded = of(&mut self.sharded).into_iter();
        plain
            .chain(sharded.map(|order| (Kind::Sharded, order)))
            .collect()
    }
}

/// Sends orders, in their order, as few commands, while there is room for them in the connection's
/// queue. Confirmations are pushes; what the futures return is whether the server refused.
pub(super) fn send(connection: &MultiplexedConnection, orders: &mut Orders, sent: &mut Sent) {
    while sent.len() < COMMANDS_QUEUED_MAX
        && let Some((kind, first)) = orders.pop_front()
    {
        let form = discriminant(&first);
        // Channels of a sharded command must be in one slot, so each has its own.
        let is_alone = kind == Kind::Sharded || matches!(first, Order::SubscribeAlone(_));
        let subscribe = !matches!(first, Order::Unsubscribe(_));
        let mut channels = vec![first.into_channel()];
        while !is_alone && channels.len() < CHANNELS_PER_COMMAND_MAX {
            let alike = |next: &(Kind, Order)| next.0 == kind && discriminant(&next.1) == form;
            if !orders.front().is_some_and(alike) {
                break;
            }
            channels.extend(orders.pop_front().map(|(_, next)| next.into_channel()));
        }
        let mut connection = connection.clone();
        hand_over(sent, async move {
            let outcome = match (kind, subscribe) {
                (Kind::Plain, true) => connection.subscribe(&channels).await,
                (Kind::Plain, false) => connection.unsubscribe(&channels).await,
                (Kind::Sharded, _) => {
                    let verb = if subscribe {
                        "SSUBSCRIBE"
                    } else {
                        "SUNSUBSCRIBE"
                    };
                    let mut command = cmd(verb);
                    let answer = connection.send_packed_command(command.arg(&channels)).await;
                    answer.and_then(Value::extract_error).map(drop)
                }
            };
            Answered {
                kind,
                channels,
                is_unsubscription: !subscribe,
                outcome,
            }
        });
    }
}

/// Asks for a sign of life.
pub(super) fn ping(connection: &MultiplexedConnection, sent: &mut Sent) {
    let mut connection = connection.clone();
    hand_over(sent, async move {
        let answer = connection.send_packed_command(&cmd("PING")).await;
        Answered {
            kind: Kind::Plain,
            channels: Vec::new(),
            is_unsubscription: false,
            outcome: answer.map(drop),
        }
    });
}

/// Polls a command once, which puts it into the connection's queue: that is what keeps commands in
/// order. Unconstrained, because a task that has used up its budget would not get as far.
fn hand_over(sent: &mut Sent, command: impl Future<Output = Answered> + Send + 'static) {
    let mut command = unconstrained(command).boxed();
    match command.as_mut().now_or_never() {
        Some(done) => sent.push(std::future::ready(done).boxed()),
        None => sent.push(command),
    }
}

#[cfg(test)]
mod tests {
    use deadpool_redis::redis::{PushInfo, RedisError};
    use futures::StreamExt as _;
    use tokio::{sync::mpsc, task::yield_now};

    use super::{super::fake, *};

    #[tokio::test]
    async fn no_command_overtakes_another_however_many_are_under_way() {
        let (heard, mut channels) = mpsc::unbounded_channel();
        let server = fake::start(move |words| {
            if let ["SSUBSCRIBE", channel] = words {
                heard.send(channel.parse().unwrap()).unwrap();
            }
            fake::OK.to_owned()
        });
        let pushes = |_: PushInfo| Ok::<(), RedisError>(());
        let connection = fake::endpoint(server).connect(pushes).await.unwrap();
        let (mut orders, mut sent) = (Orders::new(), Sent::new());
        let mut numbers = 0..;
        for round in 0..10_000 {
            let count = match (round % 1000, round % 7) {
                (0, _) => 2 * COMMANDS_QUEUED_MAX + round / 100,
                (_, 0) => 1,
                _ => 0,
            };
            let new = numbers.by_ref().take(count);
            orders.extend(new.map(|it| (Kind::Sharded, Order::Subscribe(it.to_string()))));
            send(&connection, &mut orders, &mut sent);
            yield_now().await;
            if round % 2 == 0 {
                let _ = sent.next().now_or_never();
            }
        }
        while sent.next().await.is_some() {
            send(&connection, &mut orders, &mut sent);
        }
        for expected in 0..numbers.start {
            assert_eq!(channels.try_recv(), Ok(expected));
        }
    }
}
