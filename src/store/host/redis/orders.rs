//! How subscriptions are sent to a server, and the two kinds of them.

use std::mem::discriminant;

use deadpool_redis::redis::{RedisResult, Value, aio::MultiplexedConnection, cmd};
use futures::{FutureExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::task::unconstrained;

use super::subscriptions::{Order, Subscriptions};
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

/// Orders of one kind.
pub(super) type Orders = Vec<(Kind, Order)>;

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

/// Sends orders, in their order, as few commands. Confirmations are pushes; what the futures return
/// is whether the server refused.
pub(super) fn send(connection: &MultiplexedConnection, orders: Orders, sent: &mut Sent) {
    let mut orders = orders.into_iter().peekable();
    while let Some((kind, first)) = orders.next() {
        let form = discriminant(&first);
        // Channels of a sharded command must be in one slot, so each has its own.
        let is_alone = kind == Kind::Sharded || matches!(first, Order::SubscribeAlone(_));
        let subscribe = !matches!(first, Order::Unsubscribe(_));
        let mut channels = vec![first.into_channel()];
        while !is_alone && channels.len() < CHANNELS_PER_COMMAND_MAX {
            let alike = |next: &(Kind, Order)| next.0 == kind && discriminant(&next.1) == form;
            match orders.next_if(alike) {
                Some((_, next)) => channels.push(next.into_channel()),
                None => break,
            }
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
