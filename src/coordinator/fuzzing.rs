//! Entry points of this layer for `tests/fuzzing`.

use super::{
    resume_token::{Claims, mac},
    types::{Limits, SessionId},
};
use hmac::Mac as _;
use lockkeeper_access::Identity;

const SECRET: &[u8] = b"a secret of 16 bytes or more";

/// A forged resume token must be refused. Any content signed by us must be parsed or refused, and
/// what was parsed must be the same when signed again.
pub fn resume_token(bytes: &[u8], limits: &Limits) {
    let (id, whose) = (SessionId::random(), Identity::named("caller"));
    assert_eq!(Claims::verify(bytes, SECRET, &id, &whose, limits), None);
    let mut signed = bytes.to_vec();
    signed.extend_from_slice(&mac(SECRET, &id, &whose, bytes).finalize().into_bytes());
    if let Some(claims) = Claims::verify(&signed, SECRET, &id, &whose, limits) {
        let again = claims.sign(SECRET, &id, &whose);
        assert_eq!(
            Claims::verify(&again, SECRET, &id, &whose, limits),
            Some(claims)
        );
    }
}
