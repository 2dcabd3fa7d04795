//! The locking of Terraform's http backend, as calls of the facade's service.
//!
//! `LOCK /terraform/NAME` and `UNLOCK /terraform/NAME` have a lock info as their body. A lock that
//! another one holds is answered with 423 and the lock info of its holder.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header::AUTHORIZATION,
    uri::PathAndQuery,
};
use lockkeeper_facades::terraform::v1::{LockRequest, LockResponse, UnlockRequest};
use prost::Message as _;
use tonic::{Status, body::Body};

use crate::grpc::status;

/// What the paths of locks begin with.
const PREFIX: &str = "/terraform/";

const LOCK: &str = "/lockkeeper.facades.terraform.v1.StateLock/Lock";
const UNLOCK: &str = "/lockkeeper.facades.terraform.v1.StateLock/Unlock";

/// A call for the lock of a state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct StateLock {
    name: String,
    unlocks: bool,
}

// === impl StateLock ===

impl StateLock {
    /// What a request to a path of locks asks for; none of other paths.
    pub(super) fn of(request: &Request<Body>) -> Option<Result<Self, (Status, StatusCode)>> {
        let name = request.uri().path().strip_prefix(PREFIX)?;
        let unlocks = match request.method().as_str() {
            "LOCK" | "POST" | "PUT" => false,
            "UNLOCK" | "DELETE" => true,
            _ => {
                let status = status::no_state(request.method());
                return Some(Err((status, StatusCode::METHOD_NOT_ALLOWED)));
            }
        };
        let call = decoded(name).map(|name| Self { name, unlocks });
        Some(call.ok_or_else(|| (status::invalid_path(name), StatusCode::BAD_REQUEST)))
    }

    /// Makes the head of a request that of a call. Terraform can send a password only: it is the
    /// bearer token.
    pub(super) fn rewrite(&self, request: &mut Request<Body>) {
        let path = if self.unlocks { UNLOCK } else { LOCK };
        let mut uri = request.uri().clone().into_parts();
        uri.path_and_query = Some(PathAndQuery::from_static(path));
        *request.uri_mut() = Uri::from_parts(uri).unwrap_or_else(|_| Uri::from_static(path));
        *request.method_mut() = Method::POST;
        if let Some(token) = password(request.headers()) {
            request.headers_mut().insert(AUTHORIZATION, token);
        }
    }

    /// The message of the call.
    pub(super) fn message(&self, body: &[u8]) -> Vec<u8> {
        let (name, lock_info) = (self.name.clone(), body.to_vec());
        if self.unlocks {
            UnlockRequest { name, lock_info }.encode_to_vec()
        } else {
            LockRequest { name, lock_info }.encode_to_vec()
        }
    }

    /// The answer of the call, as Terraform knows it.
    pub(super) fn answer(&self, message: &[u8]) -> Result<(StatusCode, Bytes), Status> {
        if self.unlocks {
            return Ok((StatusCode::OK, Bytes::new()));
        }
        let answer = LockResponse::decode(message);
        let answer = answer.map_err(|_| status::unexpected_answer())?;
        let code = if answer.holder.is_empty() {
            StatusCode::OK
        } else {
            StatusCode::LOCKED
        };
        Ok((code, answer.holder.into()))
    }
}

/// The password of a request, as a token.
fn password(headers: &HeaderMap) -> Option<HeaderValue> {
    let (scheme, encoded) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let encoded = scheme.eq_ignore_ascii_case("basic").then_some(encoded)?;
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok()?;
    let (_user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    let mut token = HeaderValue::try_from(format!("Bearer {password}")).ok()?;
    token.set_sensitive(true);
    Some(token)
}

/// The text of a part of a path; none if it is not encoded as such.
fn decoded(path: &str) -> Option<String> {
    let mut text = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        text.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?].map(char::from);
                let [high, low] = digits.map(|digit| digit.to_digit(16));
                u8::try_from(high? * 16 + low?).ok()?
            }
            plain => plain,
        });
    }
    String::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_or_refused() {
        assert_eq!(decoded("a/b").as_deref(), Some("a/b"));
        assert_eq!(decoded("a%2Fb%20%c3%A4").as_deref(), Some("a/b ä"));
        for wrong in ["%", "%2", "%zz", "%+1", "%ff"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn each_method_that_terraform_can_be_given_locks_or_unlocks() {
        let unlocks = |method: &str| {
            let request = Request::builder().method(method).uri("/terraform/a");
            let call = StateLock::of(&request.body(Body::empty()).unwrap()).unwrap();
            call.map(|call| call.unlocks).map_err(|(_, code)| code)
        };
        assert_eq!(["LOCK", "POST", "PUT"].map(unlocks), [Ok(false); 3]);
        assert_eq!(["UNLOCK", "DELETE"].map(unlocks), [Ok(true); 2]);
        assert_eq!(unlocks("GET"), Err(StatusCode::METHOD_NOT_ALLOWED));
    }

    #[test]
    fn the_password_is_the_token_and_nothing_else_is() {
        let headers = |value: &str| {
            let value = HeaderValue::try_from(value).unwrap();
            HeaderMap::from_iter([(AUTHORIZATION, value)])
        };
        let basic = format!("basic {}", BASE64_STANDARD.encode("me:a:b"));
        assert_eq!(password(&headers(&basic)).unwrap(), "Bearer a:b");
        for other in ["Bearer abc", "Basic !", "Basic", "Basic bWU="] {
            assert!(password(&headers(other)).is_none(), "{other}");
        }
    }
}
