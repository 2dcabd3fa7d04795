//! Who asks, as other coordinators are shown it.

use http::{HeaderValue, header::AUTHORIZATION};
use lockkeeper_access::Identity;
use tonic::Request;

/// The header of a question that is asked in the name of another caller: only the caller's token
/// says who asks, not the certificate of the connection.
pub(crate) const ON_BEHALF: &str = "lockkeeper-on-behalf";

/// The caller of a question to all coordinators.
#[derive(Clone, Debug)]
pub(crate) struct Forwarded {
    authorization: Option<HeaderValue>,
    is_anonymous: bool,
}

// === impl Forwarded ===

impl Forwarded {
    /// The caller of a request with this `authorization` header.
    pub(crate) fn new(authorization: Option<&HeaderValue>, identity: &Identity) -> Self {
        Self {
            authorization: authorization.cloned(),
            is_anonymous: identity.is_anonymous(),
        }
    }

    /// Why a coordinator at this address must not be asked in the name of the caller, if so.
    pub(super) fn refuse(&self, address: &str, allow_plaintext: bool) -> Option<&'static str> {
        match &self.authorization {
            None if self.is_anonymous => None,
            None => Some("the caller's certificate or socket counts only here: ask it directly"),
            Some(_) if allow_plaintext || address.starts_with("https://") || is_local(address) => {
                None
            }
            Some(_) => Some(
                "the caller's token would travel in plain text: use https:// in its \
                 fleet.address, or set auth.allow_plaintext here",
            ),
        }
    }

    /// A question of the caller.
    pub(super) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let headers = request.metadata_mut().as_mut();
        headers.insert(ON_BEHALF, HeaderValue::from_static("caller"));
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        request
    }
}

/// Whether what is sent there does not leave this machine.
fn is_local(address: &str) -> bool {
    let authority = address.parse().ok().and_then(|uri: http::Uri| {
        let host = uri.host()?.trim_matches(['[', ']']).to_owned();
        host.parse::<std::net::IpAddr>().ok()
    });
    authority.is_some_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leaves_the_machine_encrypted_only_and_a_certificate_not_at_all() {
        let named = Identity::named("web");
        let (far, near) = ("http://10.0.0.7:7625", "http://127.0.0.1:7625");
        let certificate = Forwarded::new(None, &named);
        assert!(certificate.refuse(near, true).is_some());
        let anonymous = Forwarded::new(None, &Identity::anonymous());
        assert!(anonymous.refuse(far, false).is_none());
        let token = Forwarded::new(Some(&HeaderValue::from_static("Bearer x")), &named);
        for asked in [anonymous.request(()), token.request(())] {
            // Or the caller would have the rights of this coordinator's certificate.
            assert!(asked.metadata().contains_key(ON_BEHALF));
        }
        assert!(token.refuse(far, false).is_some());
        assert!(
            token
                .refuse("http://localhost.example:7625", false)
                .is_some()
        );
        for (address, allow_plaintext) in [
            (far, true),
            (near, false),
            ("http://[::1]:7625", false),
            ("https://10.0.0.7:7625", false),
        ] {
            assert!(
                token.refuse(address, allow_plaintext).is_none(),
                "{address}"
            );
        }
    }
}
