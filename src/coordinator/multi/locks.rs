//! The locks of a request for several.

use std::{collections::BTreeMap, sync::Arc};

use lockkeeper_store::script::Mode;

use crate::types::{Invalid, Limits, LockName};

/// Several locks, at least one, in the order of their names. Each name has one mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locks(Arc<[(LockName, Mode)]>);

impl Locks {
    /// The request field that they come from.
    pub const FIELD: &'static str = "locks";

    /// Sorts the locks; a duplicate counts once.
    pub fn new(
        named: impl ExactSizeIterator<Item = Result<(LockName, Mode), Invalid>>,
        limits: &Limits,
    ) -> Result<Self, Invalid> {
        let refuse = |why: String| Err(Invalid::new(Self::FIELD, why));
        let max = limits.locks_per_request_max;
        match named.len() {
            0 => return refuse("must not be empty".to_owned()),
            len if len > max => {
                return refuse(format!("must have at most {max} entries, but has {len}"));
            }
            _ => {}
        }
        let mut locks = BTreeMap::new();
        for (at, lock) in named.enumerate() {
            let (name, mode) = match lock {
                Ok(lock) => lock,
                Err(Invalid { field, why }) => return refuse(format!("[{at}].{field}: {why}")),
            };
            let before = *locks.entry(name.clone()).or_insert(mode);
            if before != mode {
                return refuse(format!("`{name}` is named in two modes"));
            }
        }
        Ok(Self(locks.into_iter().collect()))
    }

    /// The number of locks.
    #[expect(clippy::len_without_is_empty, reason = "they are never none")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The first by name.
    pub fn first(&self) -> &LockName {
        self.name(0)
    }

    pub(crate) fn get(&self, which: usize) -> (&LockName, Mode) {
        let (name, mode) = &self.0[which];
        (name, *mode)
    }

    pub(crate) fn name(&self, which: usize) -> &LockName {
        &self.0[which].0
    }

    /// Each lock and its mode, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&LockName, Mode)> {
        self.0.iter().map(|(name, mode)| (name, *mode))
    }

    /// Whether one of them is a fair lock.
    pub(crate) fn has_fair(&self) -> bool {
        self.iter().any(|(_, mode)| mode == Mode::Fair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::tests::limits;

    fn parse(named: &[(&str, Mode)]) -> Result<Locks, Invalid> {
        let limits = limits();
        let named = named
            .iter()
            .map(|(name, mode)| Ok((LockName::parse(name, &limits)?, *mode)));
        Locks::new(named, &limits)
    }

    #[test]
    fn names_are_sorted_and_count_once() {
        let locks = parse(&[("b", Mode::Read), ("a", Mode::Fair), ("b", Mode::Read)]).unwrap();
        let names: Vec<_> = locks
            .iter()
            .map(|(name, mode)| (name.store_key(), mode))
            .collect();
        assert_eq!(names, [("a", Mode::Fair), ("b", Mode::Read)]);
        assert!(locks.has_fair() && locks.first().store_key() == "a");
    }

    #[test]
    fn what_cannot_be_held_together_is_refused() {
        let many = [("a", Mode::Read); 5];
        let bad: [(&[(&str, Mode)], &str); 4] = [
            (&[], "must not be empty"),
            (&many, "must have at most 4 entries, but has 5"),
            (
                &[("a", Mode::Read), ("a", Mode::Write)],
                "`a` is named in two modes",
            ),
            (
                &[("a", Mode::Read), ("", Mode::Read)],
                "[1].name: must not be empty",
            ),
        ];
        for (named, why) in bad {
            assert_eq!(parse(named), Err(Invalid::new("locks", why)), "{named:?}");
        }
    }
}
