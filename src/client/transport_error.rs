//! Descriptions of failed connections.

use std::{error::Error, iter::successors};

use tonic::Status;

/// What begins the description of a refused certificate.
const CERTIFICATE: &str = "invalid peer certificate: ";

/// Those that the right authority would not be refused for. An unrelated authority of the same name
/// is taken for the issuer, and its key then fails.
const UNTRUSTED: [&str; 3] = [
    "UnknownIssuer",
    "BadSignature",
    "UnsupportedSignatureAlgorithm",
];

/// The last cause says what happened; those around it say "transport error".
pub(crate) fn describe(error: &(dyn Error + 'static)) -> String {
    let causes = || successors(Some(error), |error| (*error).source());
    #[cfg(feature = "tls")]
    if causes().any(tls::is_answer_without_tls) {
        return tls::NO_TLS.to_owned();
    }
    let cause = causes().last().unwrap_or(error).to_string();
    match cause.strip_prefix(CERTIFICATE) {
        Some(why) if why.contains("CaUsedAsEndEntity") => format!(
            "{cause}: the server shows the certificate of an authority, and needs one that an \
             authority has issued (CA:FALSE)"
        ),
        Some(why) if UNTRUSTED.iter().any(|it| why.starts_with(it)) => {
            format!("{cause}: give the certificate of its authority (--ca-file)")
        }
        _ => cause,
    }
}

/// Why a call was lost on the way, for people. `None` if the coordinator itself refused it.
pub fn of_status(status: &Status) -> Option<String> {
    status.source().map(describe)
}

#[cfg(feature = "tls")]
mod tls {
    use std::{error::Error, io};

    use rustls::InvalidMessage;

    /// The TLS handshake was answered by a server without TLS.
    pub(super) const NO_TLS: &str = "the server does not use TLS: use http://";

    pub(super) fn is_answer_without_tls(error: &(dyn Error + 'static)) -> bool {
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        matches!(
            tls,
            Some(rustls::Error::InvalidMessage(
                InvalidMessage::InvalidContentType
            ))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(cause: &str) -> String {
        describe(&std::io::Error::other(cause.to_owned()))
    }

    #[test]
    fn a_certificate_that_is_not_trusted_has_a_hint() {
        for why in [
            "UnknownIssuer",
            "BadSignature",
            "UnsupportedSignatureAlgorithmForPublicKeyContext { signature_algorithm_id: [6] }",
        ] {
            let told = described(&format!("invalid peer certificate: {why}"));
            assert!(told.ends_with(&format!(
                "{why}: give the certificate of its authority (--ca-file)"
            )));
        }
        let of_authority = "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))";
        let hint = ": the server shows the certificate of an authority, and needs one that an \
                    authority has issued (CA:FALSE)";
        assert_eq!(described(of_authority), format!("{of_authority}{hint}"));
        for other in ["invalid peer certificate: Expired", "Connection refused"] {
            assert_eq!(described(other), other);
        }
    }
}
