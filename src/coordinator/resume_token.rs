//! The token with which a client resumes its session, here or on another coordinator with the same
//! secret. It carries the session's settings and its own issue, signed together with the session's
//! id and its identity.

use std::{fmt, sync::Arc, time::Duration};

use hmac::{Hmac, KeyInit as _, Mac as _};
use lockkeeper_access::Identity;
use parking_lot::RwLock;
use sha2::Sha256;

use crate::types::{Limits, OnDisconnect, SessionId, over};

const VERSION: u8 = 2;
const MAC_BYTES: usize = 32;

/// The issue follows the client name, behind this mark and as digits. Coordinators of older
/// versions take it for a part of the name, and so accept and return the token.
const ISSUE_MARK: &str = "~";
const TIME_DIGITS: usize = 10;
const GENERATION_DIGITS: usize = 8;
const ISSUE_BYTES: usize = ISSUE_MARK.len() + TIME_DIGITS + GENERATION_DIGITS;

/// The secrets of resume tokens: the first signs, and all are accepted, so that they can be
/// replaced without a gap. Clones share them.
#[derive(Clone)]
pub struct SessionSecrets(Arc<RwLock<Arc<[Vec<u8>]>>>);

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

// === impl SessionSecrets ===

impl SessionSecrets {
    /// At least one.
    pub fn new(secrets: Vec<Vec<u8>>) -> Self {
        Self(Arc::new(RwLock::new(secrets.into())))
    }

    /// Replaces them. Tokens of a secret that is gone are refused from now on.
    pub fn set(&self, secrets: Vec<Vec<u8>>) {
        *self.0.write() = secrets.into();
    }

    pub(crate) fn get(&self) -> Arc<[Vec<u8>]> {
        Arc::clone(&self.0.read())
    }
}

impl fmt::Debug for SessionSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionSecrets").finish_non_exhaustive()
    }
}

// === impl Claims ===

impl Claims {
    /// Version, effect of a broken stream, lease in ms, client name, issue, MAC. A client name
    /// that leaves no room for the issue is shortened.
    pub(crate) fn sign(
        &self,
        issue: Issue,
        secrets: &[Vec<u8>],
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
        let secret = secrets.first().map_or(&[][..], Vec::as_slice);
        let mac = mac(secret, id.as_str(), whose.as_str(), &token)
            .finalize()
            .into_bytes();
        token.extend_from_slice(&mac);
        token
    }

    /// The settings and the issue, if the token was signed for this session of this caller. Tokens
    /// of older versions have no issue.
    pub(crate) fn verify(
        token: &[u8],
        secrets: &[Vec<u8>],
        (id, whose): (&SessionId, &Identity),
        limits: &Limits,
    ) -> Option<(Self, Option<Issue>)> {
        let (payload, signature) = token.split_at_checked(token.len().checked_sub(MAC_BYTES)?)?;
        // Compares in constant time.
        let is_signed = |secret: &Vec<u8>| {
            let mac = mac(secret, id.as_str(), whose.as_str(), payload);
            mac.verify_slice(signature).is_ok()
        };
        if !secrets.iter().any(is_signed) {
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

/// The signature of a payload. `id` and `whose` have no zero byte, so it is that of no other two.
pub(crate) fn mac(secret: &[u8], id: &str, whose: &str, payload: &[u8]) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mac = Hmac::<Sha256>::new_from_slice(secret).expect("any key length");
    mac.chain_update(id)
        .chain_update([0])
        .chain_update(whose)
        .chain_update([0])
        .chain_update(payload)
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

    #[test]
    fn only_the_signed_token_of_the_same_session_is_accepted() {
        let claims = claims("ci");
        let (id, secrets) = (SessionId::random(), [b"0123456789abcdef".to_vec()]);
        let whose = Identity::named("web");
        let token = claims.sign(ISSUE, &secrets, (&id, &whose), &limits());
        let verify = |token: &[u8], secrets: &[Vec<u8>], id| {
            Claims::verify(token, secrets, (id, &whose), &limits())
        };
        assert_eq!(verify(&token, &secrets, &id), Some((claims, Some(ISSUE))));
        let another = [b"another secret..".to_vec()];
        assert_eq!(verify(&token, &another, &id), None);
        let both = [another[0].clone(), secrets[0].clone()];
        assert!(verify(&token, &both, &id).is_some());
        let other = SessionId::random();
        assert_eq!(verify(&token, &secrets, &other), None);
        for at in 0..token.len() {
            let mut forged = token.clone();
            forged[at] ^= 1;
            assert_eq!(verify(&forged, &secrets, &id), None, "byte {at}");
        }
        assert_eq!(verify(&[], &secrets, &id), None);
        for other in [Identity::anonymous(), Identity::named("wee")] {
            let verified = Claims::verify(&token, &secrets, (&id, &other), &limits());
            assert_eq!(verified, None, "{other}");
        }
    }

    #[test]
    fn an_older_version_takes_the_issue_for_a_part_of_the_name() {
        let (id, whose) = (SessionId::random(), Identity::anonymous());
        let secrets = [b"0123456789abcdef".to_vec()];
        for name in ["", "ci", &"ä".repeat(64)] {
            let token = claims(name).sign(ISSUE, &secrets, (&id, &whose), &limits());
            let as_name = &token[10..token.len() - MAC_BYTES];
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
