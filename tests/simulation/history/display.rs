//! How a history reads.

use std::fmt;

use lockkeeper_store::script::Mode;

use super::{Event, Holder, Share, What};

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.session {
            Some(session) => write!(f, "s{session}.{}", self.label)?,
            None => write!(f, "o{}", self.label)?,
        }
        f.write_str(match self.mode {
            Mode::Exclusive => "",
            Mode::Fair => "/fair",
            Mode::Read => "/read",
            Mode::Write => "/write",
        })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={} until {:?}", self.holder, self.count, self.until)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, what } = self;
        write!(f, "{at:>8} ")?;
        match what {
            What::Invoked {
                op,
                holder,
                name,
                node,
                kind,
                repeats,
            } => {
                write!(f, "#{op} {holder} asks node {node}: {kind:?} lock {name}")?;
                repeats.map_or(Ok(()), |first| write!(f, ", again as #{first}"))
            }
            What::Told(op, told) => write!(f, "#{op} is told {told:?}"),
            What::Unread(op) => write!(f, "#{op} has an answer that lies unread"),
            What::Cancelled(op) => write!(f, "#{op} is cancelled"),
            What::Dropped(op) => write!(f, "#{op} is not waited for any more"),
            What::Lost(holder, name, token) => {
                write!(f, "{holder} is told: lock {name} lost, token {token}")
            }
            What::Kept(holder, name, seen) => write!(f, "{holder} keeps lock {name}: {seen:?}"),
            What::Forgot(holder, name) => write!(f, "{holder} gives lock {name} up"),
            What::Attached(session, node) => write!(f, "s{session} is attached to node {node}"),
            What::Broken(session, keeps) => {
                write!(f, "s{session} lost its stream, keeps grants: {keeps}")
            }
            What::Closing(session) => write!(f, "s{session} closes"),
            What::Foreign(holder, name, Some(until)) => {
                write!(f, "{holder} holds lock {name} by itself until {until}")
            }
            What::Foreign(holder, name, None) => write!(f, "{holder} gives lock {name} back"),
            What::Stored {
                name,
                shares,
                token,
                queue,
                by,
            } => {
                write!(f, "        store: lock {name}")?;
                for share in shares {
                    write!(f, " {share}")?;
                }
                for waiter in queue {
                    write!(f, " < {waiter}")?;
                }
                write!(f, ", token {token}, by {by}")
            }
            What::Waits(holder, name) => write!(f, "        {holder} waits for lock {name}"),
            What::HeldBack(name, until) => {
                write!(
                    f,
                    "        store: lock {name} lets no reader in until {until}"
                )
            }
            What::Forced(name) => write!(f, "lock {name} is deleted by hand"),
            What::Reach(node, reach) => write!(f, "        node {node} is {reach:?}"),
            What::Healed => write!(f, "healed"),
            What::Broke(rule) => write!(f, "BROKEN: {rule}"),
            What::Note(text) => write!(f, "        {text}"),
        }
    }
}
