//! Messages to the coordinators that have the sessions of a lock's holders.

use std::time::Duration;

use super::{
    encoding::{DONE, millis, refusal},
    host_scripts::HostScripts,
};
use crate::{
    host::words,
    script::{CallError, catalog, keys},
};

/// The first line of a message. Coordinators skip what begins otherwise.
const VERSION: &str = "1";

/// What the message says besides of the loss.
const PREEMPTS: &str = "1";
const HANDED_OVER: &str = "2";

/// Separates the parts of a message, none of which contains control characters.
const SEPARATOR: char = '\n';

/// A message to the coordinators of some holders of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToHolders {
    /// Identifies the request to yield; empty: the lock was taken away.
    pub id: String,
    /// Who asks, for people.
    pub by: String,
    /// The fencing token of the grants in question.
    pub token: u64,
    /// What is left of the time to yield, or of the grace period.
    pub within: Duration,
    /// Whether the lock is, or was, taken away because the holder was asked to yield.
    pub preempts: bool,
    /// Whether the lock was handed over by a ticket. Older versions read that it was taken away by
    /// force.
    pub handed_over: bool,
    /// The lock's name.
    pub name: String,
    /// Why, for people.
    pub reason: String,
    /// The owners in question.
    pub holders: Vec<String>,
}

// === impl ToHolders ===

impl ToHolders {
    fn encode(&self) -> String {
        let within = u64::try_from(self.within.as_millis()).unwrap_or(u64::MAX);
        let (token, within) = (self.token.to_string(), within.to_string());
        let parts = [
            VERSION,
            &self.id,
            &self.by,
            &token,
            &within,
            match (self.preempts, self.handed_over) {
                (true, _) => PREEMPTS,
                (false, true) => HANDED_OVER,
                (false, false) => "0",
            },
            &self.name,
            &self.reason,
        ];
        let holders = self.holders.iter().map(String::as_str);
        let lines: Vec<&str> = parts.into_iter().chain(holders).collect();
        lines.join(&SEPARATOR.to_string())
    }

    /// Reads a message; `None` if another program or a later version has sent it.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let mut lines = str::from_utf8(message).ok()?.split(SEPARATOR);
        if lines.next() != Some(VERSION) {
            return None;
        }
        let mut line = || lines.next();
        let (id, by) = (line()?.to_owned(), line()?.to_owned());
        let (token, within) = (line()?.parse().ok()?, line()?.parse().ok()?);
        let kind = line()?;
        let (preempts, handed_over) = (kind == PREEMPTS, kind == HANDED_OVER);
        Some(Self {
            id,
            by,
            token,
            within: Duration::from_millis(within),
            preempts,
            handed_over,
            name: line()?.to_owned(),
            reason: line()?.to_owned(),
            holders: lines.map(str::to_owned).collect(),
        })
    }
}

// === impl HostScripts ===

impl HostScripts {
    pub(crate) async fn tell_holders(
        &self,
        channel: &str,
        message: &ToHolders,
    ) -> Result<Vec<bool>, CallError> {
        let keys = words![keys::holders_reached(&message.name, &message.id)];
        let mut args = words![channel, &message.encode()];
        args.extend(&message.holders);
        let reached = self.eval(&catalog::HOLDERS_TELL, keys, args).await?;
        Ok(reached.iter().map(|reached| *reached == DONE).collect())
    }

    pub(crate) async fn holders_reached(
        &self,
        name: &str,
        id: &str,
        holders: &[&str],
        retention: Duration,
    ) -> Result<(), CallError> {
        let keys = words![keys::holders_reached(name, id)];
        let mut args = words![millis(retention)];
        args.extend(holders);
        match *self.eval(&catalog::HOLDERS_REACHED, keys, args).await? {
            [DONE] => Ok(()),
            ref other => Err(refusal(&catalog::HOLDERS_REACHED, other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_and_others_are_skipped() {
        let message = ToHolders {
            id: "7".to_owned(),
            by: "deploy".to_owned(),
            token: 1_700_000_000_000_000,
            within: Duration::from_secs(30),
            preempts: true,
            handed_over: false,
            name: "a:{b}".to_owned(),
            reason: "a new version".to_owned(),
            holders: vec!["x".to_owned(), "6fa459ea:0".to_owned()],
        };
        let text = message.encode();
        assert_eq!(ToHolders::parse(text.as_bytes()), Some(message.clone()));
        let handed_over = ToHolders {
            preempts: false,
            handed_over: true,
            ..message
        };
        let text = handed_over.encode();
        assert_eq!(ToHolders::parse(text.as_bytes()), Some(handed_over));
        for other in [
            "",
            "0",
            "1",
            "2\n7\n\n1\n1\n0\na\nb",
            "1\n\n\nx\n1\n0\na\nb",
        ] {
            assert_eq!(ToHolders::parse(other.as_bytes()), None, "{other}");
        }
        assert_eq!(ToHolders::parse(b"\xff"), None);
    }
}
