//! The newest grants of names, for the most recently granted ones, in a small table of fixed size.
//! It shows whether the fencing tokens of a name grow, and which session had it before.

use std::hash::BuildHasher as _;

use foldhash::fast::{FixedState, RandomState};
use lockkeeper_store::script::Mode;
use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use crate::types::{Grant, GrantKey, LockName, Owner, SessionId, Slot};

/// Maximum names remembered; a newer one replaces an older one.
const NAMES: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(crate) struct Tokens {
    hasher: RandomState,
    seen: Vec<Mutex<Seen>>,
}

/// The newest grant of a name.
#[derive(Clone, Debug, Default)]
struct Seen {
    name: u64,
    former: Former,
    at: Option<Instant>,
}

/// An earlier grant of a name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Former {
    pub(crate) token: u64,
    /// Whom it was granted to, if to a session and alone.
    pub(crate) holder: Option<Holder>,
}

/// The holder of an earlier grant, without anything that lies among the memory of other grants:
/// that would stay when they have ended.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    session: Uuid,
    slot: Slot,
    /// None: the default.
    label: Option<Box<str>>,
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
    /// Records a grant requested at `sent_at`. Returns the one seen before that.
    pub(crate) fn replace(&self, grant: &Grant, sent_at: Instant) -> Option<Former> {
        let key = grant.name.store_key();
        // The place without a random key, so that the simulation can repeat a history; what tells
        // names apart with one, so that nobody can choose a name that is taken for another.
        let place = FixedState::default().hash_one(key);
        let place = usize::try_from(place).unwrap_or_default() % NAMES;
        let name = self.hasher.hash_one(key);
        let mut seen = self.seen[place].lock();
        let token = grant.fencing_token;
        if token == 0 {
            // A reader's, where no writer's token is known any more.
            return None;
        }
        let session = grant.owner.session.as_ref();
        let session = session.filter(|_| grant.mode != Mode::Read);
        let newest = Seen {
            name,
            former: Former {
                token,
                holder: session.map(|session| Holder::of(grant, session)),
            },
            at: Some(Instant::now()),
        };
        let before = std::mem::replace(&mut *seen, newest);
        drop(seen);
        // An answer may be overtaken by that to a later grant, but not by that to a later attempt.
        let is_earlier = before.name == name && before.at.is_some_and(|at| at < sent_at);
        is_earlier.then_some(before.former)
    }
}

// === impl Holder ===

impl Holder {
    fn of(grant: &Grant, session: &SessionId) -> Self {
        let label = &*grant.owner.label;
        Self {
            session: session.uuid(),
            slot: GrantKey::of(grant).slot,
            label: (label != Owner::DEFAULT_LABEL).then(|| label.into()),
        }
    }

    /// Whether it is the holder of this grant, too.
    pub(crate) fn has(&self, grant: &Grant) -> bool {
        grant.owner.session.as_ref().map(SessionId::uuid) == Some(self.session)
            && GrantKey::of(grant).slot == self.slot
            && *grant.owner.label == *self.label()
    }

    /// The key of its grant of this name.
    pub(crate) fn key(&self, name: &LockName) -> GrantKey {
        GrantKey {
            name: name.clone(),
            slot: self.slot,
            label: self.label().into(),
        }
    }

    pub(crate) fn session(&self) -> SessionId {
        self.session.into()
    }

    fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(Owner::DEFAULT_LABEL)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing;

    impl Tokens {
        /// The token seen before, if it is greater.
        fn goes_back(&self, grant: &Grant, sent_at: Instant) -> Option<u64> {
            let before = self.replace(grant, sent_at)?.token;
            (grant.fencing_token < before).then_some(before)
        }
    }

    fn grant(name: &str, fencing_token: u64) -> Grant {
        let owner = Owner::of_session(SessionId::random());
        testing::grant(name, &owner, fencing_token, Duration::from_secs(1))
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
    async fn the_same_names_replace_each_other_in_every_table() {
        let names: Vec<_> = (0..256).map(|name| name.to_string()).collect();
        let [remembered, again] = [(); 2].map(|()| {
            let tokens = Tokens::default();
            for name in &names {
                tokens.replace(&grant(name, 1), Instant::now());
            }
            let seen: Vec<_> = tokens.seen.iter().map(|seen| seen.lock().name).collect();
            let hash = |name: &str| tokens.hasher.hash_one(grant(name, 1).name.store_key());
            let left = names.iter().filter(|name| seen.contains(&hash(name)));
            left.collect::<Vec<_>>()
        });
        assert!(remembered.len() < names.len());
        assert_eq!(remembered, again);
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

    #[tokio::test(start_paused = true)]
    async fn a_grant_seen_at_the_same_instant_is_no_earlier_one() {
        let tokens = Tokens::default();
        assert_eq!(tokens.goes_back(&grant("a", 5), Instant::now()), None);
        assert_eq!(tokens.goes_back(&grant("a", 4), Instant::now()), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(tokens.goes_back(&grant("a", 3), Instant::now()), Some(4));
    }
}
