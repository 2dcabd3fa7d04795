//! Runs of the code, replayed through the model's lock: each step of the store has to be one that
//! the model takes, and what a client is told it may rely on has to follow from a step.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    time::Duration,
};

use lockkeeper_coordinator::modelling::relied_on;

use super::lock::{Holder, NotOwner};

/// Milliseconds since a run began.
pub type Millis = u64;

/// A time to live is rounded to this.
const ROUNDED: Millis = 1;

/// What a script does, as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client gets the lock, or one hold more.
    Acquire,
    /// A client gets the lock, and its token by the next step.
    Create,
    /// The counter is raised.
    Raise,
    /// A hold is given back.
    Release,
    /// Holds are given back, one or several.
    Undo,
    /// The lock is given back and granted anew.
    HandOver,
    /// A lease is extended.
    Renew,
    /// What the model has no step for, and what leaves the lock as it is.
    Other,
}

/// How a lock stands after a step.
#[derive(Clone, Copy, Debug)]
pub struct Seen<Client> {
    /// Who has it, with how many holds and until when; none if nobody has.
    pub held: Option<(Client, u8, Millis)>,
    /// The fencing counter.
    pub counter: u64,
}

/// One lock in the course of a run.
#[derive(Debug)]
pub struct Trace<Client> {
    held: Option<Holder<Client, u64, Millis>>,
    /// The holder gets its token by this step and those after it that only raise the counter; the
    /// largest token before.
    unnamed: Option<u64>,
    counter: u64,
    /// The largest token of all grants.
    newest: u64,
    /// No lease is longer.
    lease_max: Millis,
    /// When the lease of each grant ends, or ended.
    ends: BTreeMap<(Client, u64), Millis>,
    /// Who was not told what came of a call. Such a client counts on from the holds that it knows
    /// of, and a hold more of those may be one that the store has already.
    in_doubt: BTreeSet<Client>,
    /// The most holds that each client has had. A call that was sent before it lost them, and is
    /// carried out afterwards, adds to them.
    most: BTreeMap<Client, u8>,
}

// === impl Trace ===

impl<Client: Copy + Debug + Ord> Trace<Client> {
    /// A lock that nobody has had.
    pub fn new(lease_max: Millis) -> Self {
        Self {
            held: None,
            unnamed: None,
            counter: 0,
            newest: 0,
            lease_max,
            ends: BTreeMap::new(),
            in_doubt: BTreeSet::new(),
            most: BTreeMap::new(),
        }
    }

    /// A script has run.
    ///
    /// # Errors
    ///
    /// The model takes no such step.
    pub fn stored(&mut self, at: Millis, step: Step, seen: Seen<Client>) -> Result<(), String> {
        // A lease that ends at this moment may have ended or not.
        let ends = self.held.map_or(0, |it| it.expires);
        let lives = (at < ends + ROUNDED).then_some(self.held).flatten();
        let ended = (at + ROUNDED >= ends).then_some(None);
        let before = [Some(lives), ended].into_iter().flatten();
        let mut found = before.filter_map(|held| self.next(held, step, seen).ok());
        let next = found.next().ok_or_else(|| {
            let held = self.held;
            format!("no {step:?} of the model leads from {held:?} to {seen:?}")
        })?;
        self.take(at, step, next, seen.counter)
    }

    /// What the model makes of a lock, if that is what was seen.
    fn next(
        &self,
        held: Option<Holder<Client, u64, Millis>>,
        step: Step,
        seen: Seen<Client>,
    ) -> Result<Option<Holder<Client, u64, Millis>>, NotOwner> {
        let new = seen.held.map(|(client, _, expires)| Holder {
            client,
            token: seen.counter,
            holds: 1,
            expires,
        });
        let is_seen = |held: Option<Holder<Client, u64, Millis>>| {
            let as_seen = |it: Holder<_, _, _>| (it.client, it.holds, it.expires);
            (held.map(as_seen) == seen.held).then_some(held)
        };
        // A refusal changes nothing, nor does an end of a lease.
        if seen.counter == self.counter
            && let Some(same) = is_seen(held)
        {
            return Ok(same);
        }
        let expires = new.map_or(0, |it| it.expires);
        let of = held.ok_or(NotOwner);
        let next = match (step, new) {
            (Step::Acquire | Step::Create, Some(new)) => {
                let next = Holder::acquire(held, new)?;
                let most = self.most.get(&new.client).map_or(0, |most| most + 1);
                let least = if self.in_doubt.contains(&new.client) {
                    2
                } else {
                    next.holds
                };
                let holds = match held {
                    None => next.holds..=next.holds,
                    Some(_) => least..=next.holds.max(most),
                };
                holds
                    .map(|holds| Holder { holds, ..next })
                    .find_map(|next| is_seen(Some(next)))
            }
            (Step::Release | Step::Undo, _) => {
                let mut left = held;
                loop {
                    let it = left.ok_or(NotOwner)?;
                    left = Holder::release(left, it.client, it.token, expires)?;
                    let found = is_seen(left);
                    if found.is_some() || step == Step::Release {
                        break found;
                    }
                }
            }
            (Step::HandOver, Some(new)) => {
                let it = of?;
                is_seen(Some(Holder::hand_over(held, it.client, it.token, new)?))
            }
            (Step::Renew, Some(_)) => {
                let it = of?;
                is_seen(Some(Holder::renew(held, it.client, it.token, expires)?))
            }
            (Step::Raise, _) => is_seen(held),
            (Step::Other, _)
            | (Step::Acquire | Step::Create | Step::HandOver | Step::Renew, None) => None,
        };
        next.ok_or(NotOwner)
    }

    /// Takes a step, and looks at the tokens and the lease.
    fn take(
        &mut self,
        at: Millis,
        step: Step,
        next: Option<Holder<Client, u64, Millis>>,
        counter: u64,
    ) -> Result<(), String> {
        let same = |it: Holder<_, _, _>| self.held.is_some_and(|held| held.token == it.token);
        let is_new = next.is_some_and(|it| it.holds == 1 && !same(it));
        self.held = next;
        self.counter = counter;
        match step {
            Step::Create => self.unnamed = Some(self.newest),
            Step::Raise => {
                if let (Some(before), Some(held)) = (self.unnamed, &mut self.held) {
                    held.token = counter;
                    self.newest = before.max(counter);
                    // The counter was lost meanwhile. It is raised once more before a client is told.
                    if counter <= before {
                        return Ok(());
                    }
                }
            }
            Step::Acquire | Step::HandOver if is_new => self.granted(counter)?,
            _ => {}
        }
        if !matches!(step, Step::Create | Step::Raise) {
            self.unnamed = None;
        }
        let Some(held) = self.held else {
            return Ok(());
        };
        let lease = held.expires.saturating_sub(at);
        if lease > self.lease_max + ROUNDED {
            return Err(format!("a lease of {lease} ms is too long"));
        }
        self.ends.insert((held.client, held.token), held.expires);
        let most = self.most.entry(held.client).or_default();
        *most = held.holds.max(*most);
        Ok(())
    }

    fn granted(&mut self, token: u64) -> Result<(), String> {
        if token <= self.newest {
            let newest = self.newest;
            return Err(format!("the token {token} of a grant follows {newest}"));
        }
        self.newest = token;
        Ok(())
    }

    /// A client was told that it may rely on a grant until then. The store was asked before, so the
    /// part of the lease that is not relied on is at least that of what is left now.
    ///
    /// # Errors
    ///
    /// No step of the store has made such a grant, or it may not be relied on for so long.
    pub fn told(
        &self,
        at: Millis,
        client: Client,
        token: u64,
        until: Millis,
    ) -> Result<(), String> {
        let ends = self.ends.get(&(client, token)).copied();
        let ends = ends.ok_or_else(|| format!("nobody has granted {token} to {client:?}"))?;
        let left = Duration::from_millis(ends.saturating_sub(at));
        let may = at.min(ends) + millis(relied_on(left)) + ROUNDED;
        if until > may {
            return Err(format!(
                "{client:?} is told to rely on {token} until {until}, and may until {may}"
            ));
        }
        Ok(())
    }

    /// A client was not told what came of its call.
    pub fn unanswered(&mut self, client: Client) {
        self.in_doubt.insert(client);
    }

    /// The store has lost the lock, and perhaps its counter.
    pub fn lost(&mut self, counter: u64) {
        self.held = None;
        self.counter = counter;
    }
}

fn millis(of: Duration) -> Millis {
    u64::try_from(of.as_millis()).unwrap_or(Millis::MAX)
}
