//! Messages to all coordinators: a session is resumed on another one.

use super::host_scripts::HostScripts;
use crate::{
    host::words,
    script::{CallError, catalog, keys},
};

/// The first line of a message. Coordinators skip what begins otherwise.
const KIND: &str = "moved-1";

/// A session that a coordinator resumed and that another one may have served so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its id.
    pub session: String,
    /// How often it was resumed, at least.
    pub generation: u32,
    /// An id by which the sender knows its own message; empty: of an older version.
    pub from: String,
}

// === impl Moved ===

impl Moved {
    fn encode(&self) -> String {
        // Older versions read the first lines only.
        format!(
            "{KIND}\n{}\n{}\n{}",
            self.session, self.generation, self.from
        )
    }

    /// Reads a message; `None` if it is another one.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let mut lines = str::from_utf8(message).ok()?.split('\n');
        if lines.next() != Some(KIND) {
            return None;
        }
        Some(Self {
            session: lines.next()?.to_owned(),
            generation: lines.next()?.parse().ok()?,
            from: lines.next().unwrap_or_default().to_owned(),
        })
    }
}

// === impl HostScripts ===

impl HostScripts {
    pub(crate) async fn tell_moved(
        &self,
        channel: &str,
        prefix: &str,
        moved: &Moved,
    ) -> Result<(), CallError> {
        let keys = words![keys::holders_reached(
            &[prefix, &moved.session].concat(),
            "",
        )];
        let args = words![channel, &moved.encode()];
        self.eval(&catalog::HOLDERS_TELL, keys, args).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_and_others_are_skipped() {
        let moved = Moved {
            session: "6fa459ea-ee8a-3ca4-894e-db77e160355e".to_owned(),
            generation: 7,
            from: "1f-2".to_owned(),
        };
        assert_eq!(Moved::parse(moved.encode().as_bytes()), Some(moved));
        let older = Moved::parse(b"moved-1\ns\n7");
        assert_eq!(older.map(|it| it.from), Some(String::new()));
        for other in [
            "",
            "1\n7\n\n1",
            "moved-2\na\n1",
            "moved-1\na",
            "moved-1\na\nx",
        ] {
            assert_eq!(Moved::parse(other.as_bytes()), None, "{other}");
        }
        assert_eq!(Moved::parse(b"\xff"), None);
    }
}
