//! Which server to talk to: always the same one, or the one that sentinels name.

use std::{fmt, time::Duration};

use deadpool_redis::redis::{Value, aio::MultiplexedConnection, cmd};
use tokio::{sync::watch, time::timeout};

use super::{endpoint::Endpoint, reply};

/// Sentinels that answer do so in a moment. After this callers are told that none of them does.
const FIRST_NAMED_MAX: Duration = Duration::from_secs(1);

/// Which server to connect to.
#[derive(Clone)]
pub(super) enum Target {
    /// This one.
    Fixed(Box<Endpoint>),
    /// The master, by who last was elected; none if that is not known yet.
    Elected(watch::Receiver<Option<Endpoint>>),
}

// === impl Target ===

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.endpoint() {
            Ok(endpoint) => endpoint.fmt(f),
            Err(_) => f.write_str("no master"),
        }
    }
}

impl Target {
    /// Waits for the first word of who is the master, if it has to be asked for.
    pub(super) async fn first_named(&self) {
        if let Self::Elected(master) = self {
            let mut master = master.clone();
            let named = master.wait_for(Option::is_some);
            let _ = timeout(FIRST_NAMED_MAX, named).await;
        }
    }

    /// Where to connect now.
    pub(super) fn endpoint(&self) -> Result<Endpoint, String> {
        match self {
            Self::Fixed(endpoint) => Ok(Endpoint::clone(endpoint)),
            Self::Elected(master) => master
                .borrow()
                .clone()
                .ok_or_else(|| "no sentinel has named a master yet".to_owned()),
        }
    }

    /// Whether a connection leads to a server that takes writes, as far as that can be another one.
    pub(super) async fn check(&self, connection: &MultiplexedConnection) -> Result<(), String> {
        if let Self::Fixed(_) = self {
            return Ok(());
        }
        let mut connection = connection.clone();
        let role = connection.send_packed_command(&cmd("ROLE")).await;
        match role.map_err(|error| reply::connect_failure(&error))? {
            Value::Array(parts) if parts.first() == Some(&Value::BulkString(b"master".into())) => {
                Ok(())
            }
            _ => Err("the server that the sentinels name is no master".to_owned()),
        }
    }

    /// Resolves when another server than this one is to be connected to.
    pub(super) async fn superseded(&self, endpoint: &Endpoint) {
        match self {
            Self::Fixed(_) => std::future::pending().await,
            Self::Elected(master) => {
                let mut master = master.clone();
                let other = master.wait_for(|master| {
                    master
                        .as_ref()
                        .is_some_and(|master| master.address() != endpoint.address())
                });
                if other.await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}
