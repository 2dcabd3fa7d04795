//! A walk through all names of a store, or of several.

use std::{fmt, str::FromStr};

use crate::host::ScanCursor;

/// Where a walk goes on. As text it is opaque to its keeper. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkCursor {
    /// Which of several stores.
    pub(super) store: usize,
    /// Where in it.
    pub(super) at: ScanCursor,
}

impl fmt::Display for WalkCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScanCursor { part, position } = self.at;
        write!(f, "{:x}.{part:x}.{position:x}", self.store)
    }
}

impl FromStr for WalkCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut numbers = text
            .split('.')
            .map(|digits| u64::from_str_radix(digits, 16));
        let mut next = || numbers.next().and_then(Result::ok).ok_or(());
        let (store, part, position) = (next()?, next()?, next()?);
        let store = usize::try_from(store).map_err(drop)?;
        let part = u32::try_from(part).map_err(drop)?;
        let at = ScanCursor { part, position };
        numbers
            .next()
            .is_none()
            .then_some(Self { store, at })
            .ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_as_text() {
        let cursor = WalkCursor {
            store: 2,
            at: ScanCursor {
                part: 16383,
                position: u64::MAX,
            },
        };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for bad in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "g.0.0",
            "0.1ffffffff.0",
            "-1.0.0",
        ] {
            assert!(bad.parse::<WalkCursor>().is_err(), "{bad}");
        }
    }
}
