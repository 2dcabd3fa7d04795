//! The browser's door: a call over gRPC-Web is refused if it comes from a page of another site.

use std::sync::Arc;

use http::{
    HeaderMap, Request,
    header::{CONTENT_TYPE, HOST, ORIGIN},
};
use tonic::{Status, body::Body};

use super::{check::Check, status};
use crate::hosts::AllowedHosts;

/// Checks the host and the origin of calls that a browser can make. None: nothing is checked.
#[derive(Clone, Debug)]
pub struct SameSite(pub(super) Option<Arc<AllowedHosts>>);

// === impl SameSite ===

impl Check for SameSite {
    fn check(&self, request: &mut Request<Body>) -> Result<(), Status> {
        match &self.0 {
            Some(allowed) if is_foreign(request, allowed) => Err(status::another_site()),
            _ => Ok(()),
        }
    }
}

/// Whether a call may come from a browser and does not name an accepted host.
fn is_foreign(request: &Request<Body>, allowed: &AllowedHosts) -> bool {
    let headers = request.headers();
    let text = |name| text(headers, name);
    let kind = text(CONTENT_TYPE.as_str()).unwrap_or_default();
    let origin = text(ORIGIN.as_str());
    if !kind.starts_with("application/grpc-web") && origin.is_none() {
        return false;
    }
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    let host = text(HOST.as_str()).or(authority);
    let Some(host) = host.filter(|host| allowed.allow(host)) else {
        return true;
    };
    origin.is_some_and(|origin| !allowed.allow_origin(origin, host))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
