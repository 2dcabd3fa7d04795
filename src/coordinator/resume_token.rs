//! The token with which a client resumes its session, here or on another coordinator with the same
//! secret. It carries the session's settings, signed together with its id and its identity.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use lockkeeper_access::Identity;
use sha2::Sha256;

use crate::types::{Limits, OnDisconnect, SessionId, over};

const VERSION: u8 = 2;
const MAC_BYTES: usize = 32;

/// A session's settings, as its resume token carries them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) lease: Duration,
    pub(crate) on_disconnect: OnDisconnect,
    pub(crate) client_name: String,
}

// === impl Claims ===

impl Claims {
    /// Version, effect of a broken stream, lease in ms, client name, MAC.
    pub(crate) fn sign(&self, secret: &[u8], id: &SessionId, whose: &Identity) -> Vec<u8> {
        let keep = u8::from(self.on_disconnect == OnDisconnect::Keep);
        let lease = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        let mut token = vec![VERSION, keep];
        token.extend_from_slice(&lease.to_be_bytes());
        token.extend_from_slice(self.client_name.as_bytes());
        let mac = mac(secret, id, whose, &token).finalize().into_bytes();
        token.extend_from_slice(&mac);
        token
    }

    /// The settings, if the token was signed for this session of this caller.
    pub(crate) fn verify(
        token: &[u8],
        secret: &[u8],
        id: &SessionId,
        whose: &Identity,
        limits: &Limits,
    ) -> Option<Self> {
        let (payload, signature) = token.split_at_checked(token.len().checked_sub(MAC_BYTES)?)?;
        // Compares in constant time.
        mac(secret, id, whose, payload)
            .verify_slice(signature)
            .ok()?;
        let (&[VERSION, keep], rest) = payload.split_first_chunk::<2>()? else {
            return None;
        };
        let (lease, client_name) = rest.split_first_chunk::<8>()?;
        let client_name = String::from_utf8(client_name.to_vec()).ok()?;
        if over(&client_name, limits.client_name_bytes_max).is_some() {
            return None;
        }
        let on_disconnect = if keep == 1 {
            OnDisconnect::Keep
        } else {
            OnDisconnect::Release
        };
        let lease = Duration::from_millis(u64::from_be_bytes(*lease));
        Some(Self {
            lease,
            on_disconnect,
            client_name,
        })
    }
}

pub(crate) fn mac(secret: &[u8], id: &SessionId, whose: &Identity, payload: &[u8]) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mac = Hmac::<Sha256>::new_from_slice(secret).expect("any key length");
    // Neither an id nor a name has a zero byte, so no token can be read as another identity's.
    mac.chain_update(id.as_str())
        .chain_update([0])
        .chain_update(whose.as_str())
        .chain_update([0])
        .chain_update(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::tests::limits;

    #[test]
    fn only_the_signed_token_of_the_same_session_is_accepted() {
        let claims = Claims {
            lease: Duration::from_secs(30),
            on_disconnect: OnDisconnect::Keep,
            client_name: "ci".to_owned(),
        };
        let (id, secret) = (SessionId::random(), b"0123456789abcdef");
        let whose = Identity::named("web");
        let token = claims.sign(secret, &id, &whose);
        let verify =
            |token: &[u8], secret: &[u8], id| Claims::verify(token, secret, id, &whose, &limits());
        assert_eq!(verify(&token, secret, &id), Some(claims));
        assert_eq!(verify(&token, b"another secret..", &id), None);
        let other = SessionId::random();
        assert_eq!(verify(&token, secret, &other), None);
        for at in 0..token.len() {
            let mut forged = token.clone();
            forged[at] ^= 1;
            assert_eq!(verify(&forged, secret, &id), None, "byte {at}");
        }
        assert_eq!(verify(&[], secret, &id), None);
        for other in [Identity::anonymous(), Identity::named("wee")] {
            let verified = Claims::verify(&token, secret, &id, &other, &limits());
            assert_eq!(verified, None, "{other}");
        }
    }
}
