//! The token with which a client resumes its session, here or on another coordinator with the same
//! secret. It carries the session's settings and its own issue, signed together with the session's
//! id and its identity.

use std::{fmt, time::Duration};

use lockkeeper_access::Identity;

use crate::{
    session_secrets::{SIGNATURE_BYTES, SessionSecrets},
    types::{Limits, OnDisconnect, SessionId, over},
};

const VERSION: u8 = 2;

/// The issue follows the client name, behind this mark and as digits. Coordinators of older
/// versions take it for a part of the name, and so accept and return the token.
const ISSUE_MARK: &str = "~";
const TIME_DIGITS: usize = 10;
const GENERATION_DIGITS: usize = 8;
const ISSUE_BYTES: usize = ISSUE_MARK.len() + TIME_DIGITS + GENERATION_DIGITS;

/// A session's settings, as its resume token carries them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) lease: Duration,
    pub(crate) on_disconnect: OnDisconnect,
    pub(crate) client_name: String,
}

/// When a token was issued, and how often its session had been resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    /// In seconds since 1970.
    pub(crate) at: u64,
    pub(crate) generation: u32,
}

// === impl Claims ===

impl Claims {
    /// Version, effect of a broken stream, lease in ms, client name, issue, signature. A client
    /// name that leaves no room for the issue is shortened.
    pub(crate) fn sign(
        &self,
        issue: Issue,
        secrets: &SessionSecrets,
        (id, whose): (&SessionId, &Identity),
        limits: &Limits,
    ) -> Vec<u8> {
        let keep = u8::from(self.on_disconnect == OnDisconnect::Keep);
        let lease = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        let name_max = limits.client_name_bytes_max.saturating_sub(ISSUE_BYTES);
        let name = &self.client_name;
        let mut ends = (0..=name_max.min(name.len())).rev();
        let name_end = ends.find(|at| name.is_char_boundary(*at));
        let mut token = vec![VERSION, keep];
        token.extend_from_slice(&lease.to_be_bytes());
        token.extend_from_slice(&name.as_bytes()[..name_end.unwrap_or_default()]);
        token.extend_from_slice(issue.to_string().as_bytes());
        let signature = secrets.sign((id.as_str(), whose.as_str()), &token);
        token.extend_from_slice(&signature);
        token
    }

    /// The settings and the issue, if the token was signed for this session of this caller. Tokens
    /// of older versions have no issue.
    pub(crate) fn verify(
        token: &[u8],
        secrets: &SessionSecrets,
        (id, whose): (&SessionId, &Identity),
        limits: &Limits,
    ) -> Option<(Self, Option<Issue>)> {
        let payload_bytes = token.len().checked_sub(SIGNATURE_BYTES)?;
        let (payload, signature) = token.split_at_checked(payload_bytes)?;
        if !secrets.signed((id.as_str(), whose.as_str()), payload, signature) {
            return None;
        }
        let (&[VERSION, keep], rest) = payload.split_first_chunk::<2>()? else {
            return None;
        };
        let (lease, name) = rest.split_first_chunk::<8>()?;
        let name = std::str::from_utf8(name).ok()?;
        let (client_name, issue) = Issue::behind(name);
        if over(client_name, limits.client_name_bytes_max).is_some() {
            return None;
        }
        let on_disconnect = if keep == 1 {
            OnDisconnect::Keep
        } else {
            OnDisconnect::Release
        };
        let claims = Self {
            lease: Duration::from_millis(u64::from_be_bytes(*lease)),
            on_disconnect,
            client_name: client_name.to_owned(),
        };
        Some((claims, issue))
    }
}

// === impl Issue ===

impl Issue {
    /// Splits a client name from the issue behind it.
    fn behind(name: &str) -> (&str, Option<Self>) {
        let at = name.len().checked_sub(ISSUE_BYTES);
        let parts = at.and_then(|at| name.split_at_checked(at));
        let issue = parts.and_then(|(_, issue)| {
            let (time, generation) = issue
                .strip_prefix(ISSUE_MARK)?
                .split_at_checked(TIME_DIGITS)?;
            Some(Self {
                at: u64::from_str_radix(time, 16).ok()?,
                generation: u32::from_str_radix(generation, 16).ok()?,
            })
        });
        match (parts, issue) {
            (Some((client_name, _)), Some(issue)) => (client_name, Some(issue)),
            _ => (name, None),
        }
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, generation } = self;
        write!(
            f,
            "{ISSUE_MARK}{at:0TIME_DIGITS$x}{generation:0GENERATION_DIGITS$x}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::tests;

    fn limits() -> Limits {
        Limits {
            client_name_bytes_max: 128,
            ..tests::limits()
        }
    }

    const ISSUE: Issue = Issue {
        at: 1_800_000_000,
        generation: 7,
    };

    fn claims(client_name: &str) -> Claims {
        Claims {
            lease: Duration::from_secs(30),
            on_disconnect: OnDisconnect::Keep,
            client_name: client_name.to_owned(),
        }
    }

    fn secrets(secrets: &[&str]) -> SessionSecrets {
        SessionSecrets::new(secrets.iter().map(|it| it.as_bytes().to_vec()).collect())
    }

    #[test]
    fn only_the_signed_token_of_the_same_session_is_accepted() {
        let claims = claims("ci");
        let (id, ours) = (SessionId::random(), secrets(&["0123456789abcdef"]));
        let whose = Identity::named("web");
        let token = claims.sign(ISSUE, &ours, (&id, &whose), &limits());
        let verify = |token: &[u8], secrets: &SessionSecrets, id| {
            Claims::verify(token, secrets, (id, &whose), &limits())
        };
        assert_eq!(verify(&token, &ours, &id), Some((claims, Some(ISSUE))));
        let another = secrets(&["another secret.."]);
        assert_eq!(verify(&token, &another, &id), None);
        let both = secrets(&["another secret..", "0123456789abcdef"]);
        assert!(verify(&token, &both, &id).is_some());
        let other = SessionId::random();
        assert_eq!(verify(&token, &ours, &other), None);
        for at in 0..token.len() {
            let mut forged = token.clone();
            forged[at] ^= 1;
            assert_eq!(verify(&forged, &ours, &id), None, "byte {at}");
        }
        assert_eq!(verify(&[], &ours, &id), None);
        for other in [Identity::anonymous(), Identity::named("wee")] {
            let verified = Claims::verify(&token, &ours, (&id, &other), &limits());
            assert_eq!(verified, None, "{other}");
        }
    }

    #[test]
    fn an_older_version_takes_the_issue_for_a_part_of_the_name() {
        let (id, whose) = (SessionId::random(), Identity::anonymous());
        let secrets = secrets(&["0123456789abcdef"]);
        for name in ["", "ci", &"ä".repeat(64)] {
            let token = claims(name).sign(ISSUE, &secrets, (&id, &whose), &limits());
            let as_name = &token[10..token.len() - SIGNATURE_BYTES];
            let as_name = std::str::from_utf8(as_name).unwrap();
            assert_eq!(over(as_name, limits().client_name_bytes_max), None);
            let (read, issue) = Claims::verify(&token, &secrets, (&id, &whose), &limits()).unwrap();
            assert!(name.starts_with(&read.client_name), "{name}");
            assert_eq!(issue, Some(ISSUE));
        }
        // One of an older version has none.
        for name in ["ci", "~006b49d20000000x07", "ä~006b49d20000000007ö"] {
            assert_eq!(Issue::behind(name), (name, None));
        }
    }
}
