//! Entry points of this layer for `tests/fuzzing`.

use super::{
    resume_token::{Claims, Issue},
    session_secrets::SessionSecrets,
    types::{Limits, SessionId},
};
use lockkeeper_access::Identity;

/// A forged resume token must be refused. Any content signed by us must be parsed or refused, and
/// what was parsed must be the same when signed again.
pub fn resume_token(bytes: &[u8], limits: &Limits) {
    let (id, whose) = (SessionId::random(), Identity::named("caller"));
    let secrets = SessionSecrets::new(vec![b"a secret of 16 bytes or more".to_vec()]);
    let of = (&id, &whose);
    assert_eq!(Claims::verify(bytes, &secrets, of, limits), None);
    let mut signed = bytes.to_vec();
    let signature = secrets.sign((id.as_str(), whose.as_str()), bytes);
    signed.extend_from_slice(&signature);
    if let Some((claims, issue)) = Claims::verify(&signed, &secrets, of, limits) {
        let issue = issue.unwrap_or(Issue {
            at: 0,
            generation: 0,
        });
        // A name that leaves no room for the issue is shortened, once.
        let again = |claims: &Claims| {
            let again = claims.sign(issue, &secrets, of, limits);
            Claims::verify(&again, &secrets, of, limits).unwrap_or_else(|| panic!("{claims:?}"))
        };
        let (shortened, read) = again(&claims);
        assert!(claims.client_name.starts_with(&shortened.client_name));
        assert_eq!(again(&shortened), (shortened, read));
    }
}
