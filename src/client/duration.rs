//! Durations of the protocol.

use std::time::Duration;

use crate::Error;

/// Zero if it is missing or negative.
pub(crate) fn to_std(duration: Option<prost_types::Duration>) -> Duration {
    let duration = duration.and_then(|duration| duration.try_into().ok());
    duration.unwrap_or_default()
}

/// Fails if the protocol cannot express a duration of `what` that long.
pub(crate) fn to_proto(
    duration: Option<Duration>,
    what: &str,
) -> Result<Option<prost_types::Duration>, Error> {
    let duration = duration.map(prost_types::Duration::try_from).transpose();
    duration.map_err(|_| Error::Misconfigured(format!("the {what} is too long")))
}
