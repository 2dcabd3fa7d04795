//! Opening a session.

use std::time::Duration;

use lockkeeper_api::pb::{OnDisconnect, OpenSession};

use super::{driver::Driver, handle::Session};
use crate::{Error, duration::to_proto, endpoints::Endpoints};

/// A session to be opened.
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before `open`"]
pub struct SessionBuilder {
    endpoints: Endpoints,
    lease: Option<Duration>,
    client_name: String,
    on_disconnect: OnDisconnect,
}

// === impl SessionBuilder ===

impl SessionBuilder {
    pub(crate) fn new(endpoints: Endpoints) -> Self {
        Self {
            endpoints,
            lease: None,
            client_name: String::new(),
            on_disconnect: OnDisconnect::Keep,
        }
    }

    /// Sets the lease: how long holdings outlive this process, and how long a broken stream may
    /// take to be resumed. The default is the coordinator's (30 s).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Sets the name under which operators see the holder of a lock.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = name.into();
        self
    }

    /// Sets whether everything is released as soon as the stream breaks. By default it stays held
    /// until the lease ends, because this process may still be at work. A session that releases on
    /// disconnect is resumed only on the same coordinator, before that notices the broken stream.
    pub fn release_on_disconnect(mut self, release: bool) -> Self {
        self.on_disconnect = if release {
            OnDisconnect::Release
        } else {
            OnDisconnect::Keep
        };
        self
    }

    /// Opens the session at the first endpoint that accepts it within 6 s.
    ///
    /// Fails with the error of the last endpoint: [`Error::Unreachable`], or [`Error::Refused`].
    /// A refusal that is not [retryable](Error::is_retryable) is returned without trying others.
    pub async fn open(self) -> Result<Session, Error> {
        let open = OpenSession {
            lease: to_proto(self.lease, "lease")?,
            client_name: self.client_name,
            on_disconnect: self.on_disconnect.into(),
            sends_pings: true,
            sends_close: true,
        };
        let (driver, session) = Driver::open(self.endpoints, open).await?;
        crate::task::spawn_detached("client-session", driver.run());
        Ok(session)
    }
}
