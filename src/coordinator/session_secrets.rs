//! The secrets that coordinators share, and what they sign with them.

use std::{fmt, sync::Arc};

use hmac::{Hmac, KeyInit as _, Mac as _};
use parking_lot::RwLock;
use sha2::Sha256;

pub(crate) const SIGNATURE_BYTES: usize = 32;

/// The secrets of coordinators: the first signs, and all are accepted, so that they can be
/// replaced without a gap. Clones share them.
#[derive(Clone)]
pub struct SessionSecrets(Arc<RwLock<Arc<[Vec<u8>]>>>);

// === impl SessionSecrets ===

impl SessionSecrets {
    /// At least one.
    pub fn new(secrets: Vec<Vec<u8>>) -> Self {
        Self(Arc::new(RwLock::new(secrets.into())))
    }

    /// Replaces them. What was signed with a secret that is gone is refused from now on.
    pub fn set(&self, secrets: Vec<Vec<u8>>) {
        *self.0.write() = secrets.into();
    }

    /// The signature of a payload for this use, two texts without zero bytes. It is that of no
    /// other payload and no other use.
    pub(crate) fn sign(&self, used_for: (&str, &str), payload: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let secrets = Arc::clone(&self.0.read());
        let secret = secrets.first().map_or(&[][..], Vec::as_slice);
        mac(secret, used_for, payload)
            .finalize()
            .into_bytes()
            .into()
    }

    /// Whether it is such a signature, with any of the secrets.
    pub(crate) fn signed(&self, used_for: (&str, &str), payload: &[u8], signature: &[u8]) -> bool {
        let secrets = Arc::clone(&self.0.read());
        // Compares in constant time.
        let signed = |secret: &Vec<u8>| mac(secret, used_for, payload).verify_slice(signature);
        secrets.iter().any(|secret| signed(secret).is_ok())
    }
}

impl fmt::Debug for SessionSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionSecrets").finish_non_exhaustive()
    }
}

fn mac(secret: &[u8], (first, second): (&str, &str), payload: &[u8]) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mac = Hmac::<Sha256>::new_from_slice(secret).expect("any key length");
    mac.chain_update(first)
        .chain_update([0])
        .chain_update(second)
        .chain_update([0])
        .chain_update(payload)
}
