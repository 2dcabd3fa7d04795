//! What went wrong on the way to a coordinator, in words.

use std::{error::Error, io, iter::successors};

use rustls::InvalidMessage;
use tonic::Status;

/// The first bytes of the handshake were answered by something that is no TLS.
const NO_TLS: &str =
    "what answers there does not speak TLS, without which the address begins with http://";

/// The last cause says what happened; those around it say "transport error".
pub(super) fn in_words(error: &(dyn Error + 'static)) -> String {
    let causes = || successors(Some(error), |error| (*error).source());
    if causes().any(is_no_tls) {
        return NO_TLS.to_owned();
    }
    causes().last().unwrap_or(error).to_string()
}

/// Why a call was lost on the way. None if it was the coordinator that refused it.
pub fn of_status(status: &Status) -> Option<String> {
    status.source().map(in_words)
}

fn is_no_tls(error: &(dyn Error + 'static)) -> bool {
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
