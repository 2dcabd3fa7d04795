//! Who has won, if anyone: the pure part of an acquire on a quorum.

use std::{collections::BTreeMap, time::Duration};

use super::answers::{common_refusal, reached};
use crate::script::{Acquired, CallError, Mode};

/// What one store answered to an acquire.
pub(super) type Vote = Result<Ballot, CallError>;

/// A vote that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ballot {
    Granted(Granted),
    Busy {
        remaining: Option<Duration>,
        /// What the fencing counter shows.
        counter: u64,
    },
}

/// A vote for the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) hold_count: u32,
    pub(super) token: u64,
    pub(super) lease: Duration,
    pub(super) serial: u64,
    pub(super) repeated: bool,
}

/// What the caller knows of the owner's holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownHold {
    pub(super) mode: Mode,
    pub(super) known_holds: Option<u32>,
    /// The serial of the grant that a hold would be added to.
    pub(super) serial: Option<u64>,
}

/// A majority agrees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Elected {
    /// The stores that agree.
    pub(super) counted: Vec<usize>,
    pub(super) hold_count: u32,
    /// What the fencing counters of a majority are to reach before the grant counts.
    pub(super) token: u64,
    /// The shortest lease of those stores.
    pub(super) lease: Duration,
    /// Of a reader; of others it is the token.
    pub(super) serial: u64,
    pub(super) repeated: bool,
}

/// Why no majority agrees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Defeat {
    /// A majority has another holder; when it can be free.
    Busy(Option<Duration>),
    /// No owner is known to have a majority.
    Split,
    /// A majority refused in the same way.
    Refused(CallError),
    /// Too few answered, or they do not agree.
    TooFew,
}

/// The stores that agree on a grant, if they are a majority.
pub(super) fn elect(votes: &[Vote], known: KnownHold) -> Option<Elected> {
    let majority = votes.len() / 2 + 1;
    let granted = |(at, vote): (usize, &Vote)| match vote {
        Ok(Ballot::Granted(granted)) => Some((at, *granted)),
        Ok(Ballot::Busy { .. }) | Err(_) => None,
    };
    let granted: Vec<_> = votes.iter().enumerate().filter_map(granted).collect();
    let repeated: Vec<_> = granted
        .iter()
        .copied()
        .filter(|(_, it)| it.repeated)
        .collect();
    let mut candidates = if repeated.len() >= majority {
        // The request has been granted before, with the same token everywhere.
        repeated
    } else {
        let wanted = known.known_holds.map(|known| known.saturating_add(1));
        let fits = |it: &Granted| wanted.is_none_or(|wanted| it.hold_count == wanted);
        granted.into_iter().filter(|(_, it)| fits(it)).collect()
    };
    if let (Some(1..), Some(serial)) = (known.known_holds, known.serial) {
        candidates.retain(|(_, it)| it.adds_to(known.mode, serial));
    }
    let mut group = largest_count(candidates, known.mode, majority)?;
    // New grants that show the same token do so by chance.
    let is_known = |it: &Granted| it.repeated || it.hold_count > 1;
    if known.mode != Mode::Read && group.iter().any(|(_, it)| is_known(it)) {
        drop_newer(&mut group, majority);
    }
    let (_, first) = *group.first()?;
    let tokens = group.iter().map(|(_, it)| it.token);
    let token = if known.mode == Mode::Read {
        // The last writer's token is shown by a majority of all, so by this number of these; a
        // larger one may be of a writer that was not elected.
        reached(tokens, majority - (votes.len() - group.len()))
    } else {
        tokens.max()
    };
    let token = token.unwrap_or_default();
    Some(Elected {
        hold_count: first.hold_count,
        token,
        lease: group
            .iter()
            .map(|(_, it)| it.lease)
            .min()
            .unwrap_or_default(),
        serial: if known.mode == Mode::Read {
            first.serial
        } else {
            token
        },
        repeated: group.iter().any(|(_, it)| it.repeated),
        counted: group.into_iter().map(|(at, _)| at).collect(),
    })
}

/// The group with the largest hold count that a majority agrees on; of readers, also on the grant.
fn largest_count(
    candidates: Vec<(usize, Granted)>,
    mode: Mode,
    majority: usize,
) -> Option<Vec<(usize, Granted)>> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (at, granted) in candidates {
        let grant = if mode == Mode::Read {
            granted.serial
        } else {
            0
        };
        let group = groups.entry((granted.hold_count, grant)).or_default();
        group.push((at, granted));
    }
    let mut groups = groups.into_values().rev();
    groups.find(|group| group.len() >= majority)
}

/// Where a majority shows the same token, the grant is that one, and a store with a larger one has
/// got there by an attempt that is to be undone.
fn drop_newer(group: &mut Vec<(usize, Granted)>, majority: usize) {
    let shared = |token: u64| group.iter().filter(|(_, it)| it.token == token).count();
    let common = group.iter().map(|(_, it)| it.token);
    if let Some(common) = common.clone().find(|token| shared(*token) >= majority) {
        group.retain(|(_, it)| it.token <= common);
    }
}

/// Why no owner was elected.
pub(super) fn defeat(votes: &[Vote]) -> Defeat {
    let majority = votes.len() / 2 + 1;
    let busy: Vec<_> = votes
        .iter()
        .filter_map(|vote| match vote {
            Ok(Ballot::Busy { remaining, counter }) => Some((*remaining, *counter)),
            Ok(Ballot::Granted(_)) | Err(_) => None,
        })
        .collect();
    let cast = votes.iter().filter(|vote| vote.is_ok()).count();
    let refusal = common_refusal(votes.iter().filter_map(|vote| vote.as_ref().err()));
    let lost = votes
        .iter()
        .any(|vote| vote.as_ref().is_err_and(CallError::is_transient));
    match refusal {
        Some((refusal, count)) if count >= majority || (!lost && busy.is_empty()) => {
            return Defeat::Refused(refusal);
        }
        _ => {}
    }
    if busy.is_empty() || cast < majority {
        return Defeat::TooFew;
    }
    // The counters of a majority agree from when a grant counts until the next one. Votes for
    // others who have not won show different ones.
    let same = |counter: u64| busy.iter().filter(|(_, other)| *other == counter).count();
    if busy.iter().any(|(_, counter)| same(*counter) >= majority) {
        Defeat::Busy(free_in(votes, majority))
    } else {
        Defeat::Split
    }
}

/// When a majority can be free; none if that is not known.
fn free_in(votes: &[Vote], majority: usize) -> Option<Duration> {
    let known = votes.iter().filter_map(|vote| match vote {
        Ok(Ballot::Granted(_)) => Some(Duration::ZERO),
        Ok(Ballot::Busy { remaining, .. }) => *remaining,
        Err(_) => None,
    });
    let mut known: Vec<_> = known.collect();
    known.sort_unstable();
    known.get(majority - 1).copied()
}

// === impl Granted ===

impl Granted {
    /// Whether it is a further hold of the grant with this serial.
    fn adds_to(&self, mode: Mode, serial: u64) -> bool {
        if mode == Mode::Read {
            self.serial == serial
        } else {
            self.token <= serial
        }
    }
}

// === impl Ballot ===

impl From<(Acquired, u64)> for Ballot {
    fn from((acquired, counter): (Acquired, u64)) -> Self {
        match acquired {
            Acquired::Granted {
                hold_count,
                token,
                lease,
                serial,
                repeated,
            } => Self::Granted(Granted {
                hold_count,
                token,
                lease,
                serial,
                repeated,
            }),
            Acquired::Busy { remaining, .. } => Self::Busy { remaining, counter },
        }
    }
}
