//! What is subscribed, what should be, and what was asked for in between. Pure state:
//! [`super::subscriber`] does the talking.
//!
//! Commands for one channel are confirmed in the order in which they were sent, so a channel needs
//! no more than what was asked for last and how many confirmations are outstanding: the last of
//! them decides.

use std::collections::HashMap;

use tokio::sync::oneshot;

use crate::host::HostError;

/// Where the outcome of a change goes.
pub(super) type Confirm = oneshot::Sender<Result<(), HostError>>;

/// What has to be sent to the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    Subscribe(String),
    /// In a command of its own, so that it is not refused because of another channel.
    SubscribeAlone(String),
    Unsubscribe(String),
}

/// All channels of one connection after the other.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    channels: HashMap<String, Channel>,
    connected: bool,
    /// Channels whose next confirmation completes a gap. The gap is sent when the last of them is
    /// back.
    returning: usize,
    gap_due: bool,
    /// Channels that the server refused on this connection.
    refused: usize,
}

#[derive(Debug, Default)]
struct Channel {
    wanted: bool,
    asked: Asked,
    unconfirmed: u32,
    /// A caller got an outcome for it already, so a later confirmation is news.
    answered: bool,
    returning: bool,
    /// How often it was refused on this connection.
    refusals: u32,
    waiting: Vec<Confirm>,
}

/// What the server was last asked for on this connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Asked {
    #[default]
    Nothing,
    Subscribe,
    Unsubscribe,
    /// To subscribe, and it refused.
    Refused,
}

// === impl Order ===

impl Order {
    pub(super) fn into_channel(self) -> String {
        match self {
            Self::Subscribe(channel)
            | Self::SubscribeAlone(channel)
            | Self::Unsubscribe(channel) => channel,
        }
    }
}

// === impl Subscriptions ===

impl Subscriptions {
    /// Nothing is wanted, and nothing outstanding.
    pub(super) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// Whether a gap has to be sent now; true once.
    pub(super) fn take_gap(&mut self) -> bool {
        std::mem::take(&mut self.gap_due)
    }

    /// A channel is wanted.
    pub(super) fn want(&mut self, name: &str, confirm: Confirm) -> Option<Order> {
        let connected = self.connected;
        let channel = self.channels.entry(name.to_owned()).or_default();
        channel.wanted = true;
        if channel.asked == Asked::Subscribe && channel.unconfirmed == 0 {
            let _ = confirm.send(Ok(()));
            return None;
        }
        channel.waiting.push(confirm);
        if !connected || channel.asked == Asked::Subscribe {
            return None;
        }
        self.ask_again(name)
    }

    /// A channel is no longer wanted.
    pub(super) fn unwant(&mut self, name: String) -> Option<Order> {
        let channel = self.channels.get_mut(&name)?;
        channel.wanted = false;
        channel.answered = false;
        channel.waiting.clear();
        let asked = channel.asked;
        if asked == Asked::Subscribe {
            channel.asked = Asked::Unsubscribe;
            channel.unconfirmed += 1;
        }
        self.no_longer_returning(&name);
        match asked {
            Asked::Subscribe => return Some(Order::Unsubscribe(name)),
            Asked::Unsubscribe => {}
            Asked::Nothing | Asked::Refused => self.forget_if_done(&name),
        }
        None
    }

    /// A caller that waited for a channel gave up.
    pub(super) fn overdue(&mut self, name: &str) {
        let Some(channel) = self.channels.get_mut(name) else {
            return;
        };
        channel.answered = true;
        if channel.asked == Asked::Subscribe && channel.unconfirmed == 0 {
            self.gap_due = true;
        } else if channel.asked == Asked::Subscribe && !channel.returning {
            channel.returning = true;
            self.returning += 1;
        }
    }

    /// The server subscribed a channel.
    pub(super) fn subscribed(&mut self, name: &str) {
        let Some(channel) = self.channels.get_mut(name) else {
            return;
        };
        channel.unconfirmed = channel.unconfirmed.saturating_sub(1);
        if channel.unconfirmed > 0 || channel.asked != Asked::Subscribe {
            return;
        }
        for confirm in channel.waiting.drain(..) {
            let _ = confirm.send(Ok(()));
        }
        channel.answered = true;
        self.no_longer_returning(name);
    }

    /// The server unsubscribed a channel; false if it did so by itself.
    pub(super) fn unsubscribed(&mut self, name: &str) -> bool {
        let Some(channel) = self.channels.get_mut(name) else {
            return true;
        };
        let was_asked = channel.unconfirmed > 0;
        channel.unconfirmed = channel.unconfirmed.saturating_sub(1);
        self.forget_if_done(name);
        was_asked
    }

    /// The server refused one command to subscribe these. It refuses all because of one of them, so
    /// there are orders to ask for each alone; one that was alone is asked for again by
    /// [`Self::retry`].
    pub(super) fn refused(&mut self, names: &[String], error: &HostError) -> Vec<Order> {
        let mut orders = Vec::new();
        for name in names {
            let Some(channel) = self.channels.get_mut(name) else {
                continue;
            };
            channel.unconfirmed = channel.unconfirmed.saturating_sub(1);
            if channel.unconfirmed == 0 && channel.asked == Asked::Subscribe {
                if names.len() > 1 {
                    channel.unconfirmed = 1;
                    orders.push(Order::SubscribeAlone(name.clone()));
                    continue;
                }
                channel.asked = Asked::Refused;
                channel.refusals += 1;
                channel.answered = true;
                self.refused += 1;
                for confirm in channel.waiting.drain(..) {
                    let _ = confirm.send(Err(error.clone()));
                }
                self.no_longer_returning(name);
            }
            self.forget_if_done(name);
        }
        orders
    }

    /// Whether the last refusal of this channel was the first on this connection.
    pub(super) fn is_newly_refused(&self, name: &str) -> bool {
        let channel = self.channels.get(name);
        channel.is_some_and(|channel| channel.refusals == 1)
    }

    /// Orders for what was refused.
    pub(super) fn retry(&mut self) -> Vec<Order> {
        if std::mem::take(&mut self.refused) == 0 {
            return Vec::new();
        }
        self.ask_again_where(|channel| channel.asked == Asked::Refused)
    }

    /// The connection is there: orders for everything that is wanted.
    pub(super) fn connected(&mut self) -> Vec<Order> {
        self.connected = true;
        self.ask_again_where(|_| true)
    }

    /// The connection is gone, and with it all subscriptions.
    pub(super) fn disconnected(&mut self) {
        self.connected = false;
        self.returning = 0;
        self.refused = 0;
        self.channels.retain(|_, channel| {
            channel.asked = Asked::Nothing;
            channel.unconfirmed = 0;
            channel.returning = false;
            channel.refusals = 0;
            channel.wanted
        });
    }

    /// Fails all waiting callers: there is no connection.
    pub(super) fn fail_waiting(&mut self, error: &HostError) {
        for channel in self.channels.values_mut() {
            for confirm in channel.waiting.drain(..) {
                let _ = confirm.send(Err(error.clone()));
                channel.answered = true;
            }
        }
    }

    fn ask_again_where(&mut self, which: impl Fn(&Channel) -> bool) -> Vec<Order> {
        let chosen = self.channels.iter().filter(|(_, channel)| which(channel));
        let names: Vec<_> = chosen.map(|(name, _)| name.clone()).collect();
        names
            .iter()
            .filter_map(|name| self.ask_again(name))
            .collect()
    }

    fn ask_again(&mut self, name: &str) -> Option<Order> {
        let channel = self
            .channels
            .get_mut(name)
            .filter(|channel| channel.wanted)?;
        channel.asked = Asked::Subscribe;
        channel.unconfirmed += 1;
        if channel.answered && !channel.returning {
            channel.returning = true;
            self.returning += 1;
        }
        Some(Order::Subscribe(name.to_owned()))
    }

    fn no_longer_returning(&mut self, name: &str) {
        let Some(channel) = self.channels.get_mut(name) else {
            return;
        };
        if std::mem::take(&mut channel.returning) {
            self.returning -= 1;
            self.gap_due |= self.returning == 0;
        }
    }

    fn forget_if_done(&mut self, name: &str) {
        if self
            .channels
            .get(name)
            .is_some_and(|it| !it.wanted && it.unconfirmed == 0)
        {
            self.channels.remove(name);
        }
    }
}

#[cfg(test)]
#[path = "subscriptions_tests.rs"]
mod tests;
