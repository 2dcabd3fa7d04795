//! Descriptions of failed connections.

use std::{error::Error, iter::successors};

use tonic::Status;

/// The last cause says what happened; those around it say "transport error".
pub(crate) fn describe(error: &(dyn Error + 'static)) -> String {
    let causes = || successors(Some(error), |error| (*error).source());
    #[cfg(feature = "tls")]
    if causes().any(tls::is_answer_without_tls) {
        return tls::NO_TLS.to_owned();
    }
    let cause = causes().last().unwrap_or(error).to_string();
    if cause.starts_with("invalid peer certificate: UnknownIssuer") {
        return format!("{cause}: give the certificate of its authority (--ca-file)");
    }
    cause
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
