//! Checks the page's host and the caller's rights, and writes the audit log.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::{ConnectInfo, FromRequestParts, Request, State},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode, Uri,
        header::{AUTHORIZATION, HOST, ORIGIN},
        request::Parts,
    },
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use lockkeeper_access::{Access, Audited, Identity, Right, Unauthenticated};

use super::{Admin, failure::Failure};
use crate::{bearer::bearer, fleet::Forwarded};

/// The caller of a request.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    identity: Identity,
    authorization: Option<HeaderValue>,
    peer: Option<SocketAddr>,
}

/// Headers of every answer. Pages have no inline code and load nothing from elsewhere.
const HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src \
        'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
        require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "permissions-policy",
        "camera=(), geolocation=(), microphone=()",
    ),
    ("cache-control", "no-store"),
];

/// Refuses requests that a page of another site may have sent, and adds the headers.
pub(super) async fn guard(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = host(headers, request.uri());
    let refused = if !host.as_deref().is_some_and(|host| admin.hosts.allow(host)) {
        Some("this host is not known here: add it to admin.allowed_hosts")
    } else if !is_same_origin(headers, host.as_deref()) && !is_link(&request) {
        Some("the request comes from another site")
    } else {
        None
    };
    let mut response = match refused {
        Some(why) => Failure::new(StatusCode::FORBIDDEN, "ANOTHER_SITE", why).into_response(),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

/// The host with its port.
fn host(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| uri.authority().map(axum::http::uri::Authority::as_str));
    host.map(str::to_ascii_lowercase)
}

/// Browsers report a request's origin.
fn is_same_origin(headers: &HeaderMap, host: Option<&str>) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let site = text("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
    let origin = text(ORIGIN.as_str()).is_none_or(|origin| {
        let named = origin.split_once("://").map(|(_, host)| host);
        named.is_some() && named == host
    });
    site && origin
}

/// Whether a link of another page, a chat or a mail leads here. Only files are had so: they are the
/// same for everybody, the other page cannot read them, and no frame shows them.
fn is_link(request: &Request) -> bool {
    let mode = request.headers().get("sec-fetch-mode");
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    reads && mode.is_some_and(|it| it == "navigate") && !request.uri().path().starts_with("/api/")
}

impl FromRequestParts<Admin> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, admin: &Admin) -> Result<Self, Failure> {
        let given = parts.headers.get(AUTHORIZATION);
        let identity = admin.access.bearer(bearer(given));
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        Ok(Self {
            identity: identity.map_err(|why| Failure::unauthenticated(&why))?,
            authorization: given.cloned(),
            peer: peer.map(|peer| peer.0),
        })
    }
}

// === impl Caller ===

impl Caller {
    /// Refuses a caller without an identity.
    pub(super) fn identified(self) -> Result<Self, Failure> {
        if self.identity.is_anonymous() {
            let why = Unauthenticated("show a bearer token".to_owned());
            return Err(Failure::unauthenticated(&why));
        }
        Ok(self)
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The caller as other coordinators are shown it.
    pub(super) fn forwarded(&self) -> Forwarded {
        Forwarded::new(self.authorization.as_ref(), &self.identity)
    }

    /// Resolves when the caller loses its identity, or the admin right to names with this prefix.
    pub(super) async fn refused(self, access: Access, prefix: String) {
        let look = || {
            let token = bearer(self.authorization.as_ref());
            let is_same = access.bearer(token).is_ok_and(|it| it == self.identity);
            let is_allowed = access.allows(&self.identity, Right::Admin, &prefix);
            let end = token.and_then(|token| access.end_of(token));
            (is_same && is_allowed).then_some(end).ok_or(())
        };
        access.until_refused(look).await;
    }

    /// The caller's address without its port.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.peer.map(|peer| peer.ip())
    }

    /// Refuses a caller without the admin right to this name, or to every name with this prefix.
    /// Returns the audit record of the request.
    pub(super) fn asks<'a>(
        &'a self,
        admin: &Admin,
        operation: &'a str,
        name: &'a str,
        reason: &'a str,
    ) -> Result<Audited<'a>, Failure> {
        let may = admin.access.allows(&self.identity, Right::Admin, name);
        self.asks_if(may, operation, name, reason)
    }

    /// The same for a right that was found out before.
    pub(super) fn asks_if<'a>(
        &'a self,
        may: bool,
        operation: &'a str,
        name: &'a str,
        reason: &'a str,
    ) -> Result<Audited<'a>, Failure> {
        let asked = Audited {
            identity: &self.identity,
            peer: self.peer,
            operation,
            name,
            reason,
        };
        if may {
            return Ok(asked);
        }
        asked.denied();
        Err(Failure::new(
            StatusCode::FORBIDDEN,
            "PERMISSION_DENIED",
            "no rule allows this to the caller",
        ))
    }

    /// The same for requests that pages repeat.
    pub(super) fn looks(&self, admin: &Admin, operation: &str, name: &str) -> Result<(), Failure> {
        let asked = self.asks(admin, operation, name, "")?;
        if admin.repeats.is_first(&asked) {
            asked.done();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_files_and_not_to_data() {
        let asks = |method: &str, path: &str, mode: &str| {
            let request = axum::http::Request::builder().method(method).uri(path);
            let request = request.header("sec-fetch-mode", mode);
            is_link(&request.body(axum::body::Body::empty()).unwrap())
        };
        assert!(asks("GET", "/", "navigate"));
        assert!(asks("HEAD", "/?name=a#lock", "navigate"));
        assert!(!asks("POST", "/", "navigate"));
        assert!(!asks("GET", "/", "no-cors"));
        assert!(!asks("GET", "/api/v1/status", "navigate"));
        assert!(!asks("POST", "/api/v1/force-release", "navigate"));
    }

    #[test]
    fn a_request_of_another_site_is_known() {
        let from = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            is_same_origin(&headers, Some("localhost:7626"))
        };
        assert!(is_same_origin(&HeaderMap::new(), Some("localhost:7626")));
        assert!(from("origin", "http://localhost:7626"));
        assert!(!from("origin", "http://localhost:1"));
        assert!(!from("origin", "null"));
        assert!(from("sec-fetch-site", "same-origin"));
        assert!(from("sec-fetch-site", "none"));
        assert!(!from("sec-fetch-site", "cross-site"));
        assert!(!from("sec-fetch-site", "same-site"));
    }
}
