//! Bearer tokens in headers.

use http::HeaderValue;

/// The token of an `authorization: Bearer …` header.
pub(crate) fn bearer(authorization: Option<&HeaderValue>) -> Option<&str> {
    let (scheme, token) = authorization?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
