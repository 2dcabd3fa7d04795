//! Checks that the fencing tokens of a name grow, for the most recently granted names, in a small
//! table of fixed size.

use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::types::Grant;

/// Maximum names remembered; a newer one replaces an older one.
const NAMES: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(crate) struct Tokens {
    hasher: RandomState,
    seen: Vec<Mutex<Seen>>,
}

/// The newest token of a name.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    name: u64,
    token: u64,
    at: Option<Instant>,
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            hasher: RandomState::default(),
            seen: (0..NAMES).map(|_| Mutex::default()).collect(),
        }
    }
}

impl Tokens {
    /// Records a grant requested at `sent_at`. Returns the token seen before that, if it is
    /// greater.
    pub(crate) fn goes_back(&self, grant: &Grant, sent_at: Instant) -> Option<u64> {
        let name = self.hasher.hash_one(grant.name.store_key());
        let place = usize::try_from(name).unwrap_or_default() % NAMES;
        let mut seen = self.seen[place].lock();
        let before = (seen.name == name).then_some(*seen);
        let token = grant.fencing_token;
        if token == 0 {
            // A reader's, where no writer's token is known any more.
            return None;
        }
        *seen = Seen {
            name,
            token,
            at: Some(Instant::now()),
        };
        // An answer may be overtaken by that to a later grant, but not by that to a later attempt.
        let before = before.filter(|it| it.at.is_some_and(|at| at < sent_at))?;
        (token < before.token).then_some(before.token)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::types::{LockName, Owner, SessionId, tests::limits};
    use lockkeeper_store::script::Mode;

    fn grant(name: &str, fencing_token: u64) -> Grant {
        let limits = limits();
        let session = SessionId::random();
        Grant {
            name: LockName::parse(name, &limits).unwrap(),
            mode: Mode::Exclusive,
            owner: Owner::in_session(session, "", &limits).unwrap(),
            field: None,
            hold_count: 1,
            fencing_token,
            serial: fencing_token,
            lease: Duration::from_secs(1),
            safe_until: Instant::now(),
            watched: false,
            replica_acks: 0,
            min_replica_acks: 0,
            note: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_smaller_token_is_noticed_unless_it_was_only_overtaken() {
        let tokens = Tokens::default();
        let step = Duration::from_millis(1);
        let sent_first = Instant::now();
        tokio::time::advance(step).await;
        assert_eq!(tokens.goes_back(&grant("a", 5), sent_first), None);
        assert_eq!(
            tokens.goes_back(&grant("a", 4), sent_first),
            None,
            "overtaken"
        );
        assert_eq!(tokens.goes_back(&grant("a", 5), sent_first), None);
        tokio::time::advance(step).await;
        assert_eq!(tokens.goes_back(&grant("b", 1), Instant::now()), None);
        assert_eq!(tokens.goes_back(&grant("a", 3), Instant::now()), Some(5));
    }

    #[tokio::test(start_paused = true)]
    async fn no_token_is_no_smaller_one() {
        let tokens = Tokens::default();
        let step = Duration::from_millis(1);
        for (token, goes_back) in [(5, None), (0, None), (4, Some(5))] {
            let sent_at = Instant::now();
            tokio::time::advance(step).await;
            assert_eq!(tokens.goes_back(&grant("a", token), sent_at), goes_back);
        }
    }
}
