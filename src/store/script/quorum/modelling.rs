//! Entry points of the pure part, for `model/`.

use std::time::Duration;

use super::{
    answers::reached,
    votes::{Ballot, Granted, KnownHold, elect},
};
use crate::script::Mode;

/// Who counts for a new exclusive grant and its token, by the tokens of the members that granted.
pub fn elected(tokens: &[Option<u16>]) -> Option<(Vec<usize>, u16)> {
    let votes = tokens.iter().map(|token| {
        Ok(match token {
            Some(token) => Ballot::Granted(Granted {
                hold_count: 1,
                token: u64::from(*token),
                lease: Duration::ZERO,
                serial: u64::from(*token),
                repeated: false,
            }),
            None => Ballot::Busy {
                remaining: None,
                counter: 0,
            },
        })
    });
    let known = KnownHold {
        mode: Mode::Exclusive,
        known_holds: Some(0),
        serial: None,
    };
    let elected = elect(&votes.collect::<Vec<_>>(), known)?;
    let token = u16::try_from(elected.token).expect("one of these");
    Some((elected.counted, token))
}

/// The token that a majority shows, if it does.
pub fn shown_by(counters: impl Iterator<Item = u16>, majority: usize) -> Option<u16> {
    reached(counters, majority)
}
