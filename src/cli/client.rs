//! Connecting to a coordinator.

use std::future::Future;

use lockkeeper_client::{
    AdminClient, ElectionClient, Error, LatchClient, LockClient, SemaphoreClient,
};

use super::{
    args::ServerArgs,
    failure::{Effect, Failure},
};

pub use lockkeeper_client::short;

/// The generated client.
pub type Client = LockClient;

/// Connects. Done before the first call, so that a failure means that nothing was sent.
pub async fn connect(server: &ServerArgs) -> Result<Client, Failure> {
    connected(async { server.client()?.locks().await }).await
}

/// The same, for semaphores.
pub async fn connect_semaphores(server: &ServerArgs) -> Result<SemaphoreClient, Failure> {
    connected(async { server.client()?.semaphores().await }).await
}

/// The same, for latches.
pub async fn connect_latches(server: &ServerArgs) -> Result<LatchClient, Failure> {
    connected(async { server.client()?.latches().await }).await
}

/// The same, for elections.
pub async fn connect_elections(server: &ServerArgs) -> Result<ElectionClient, Failure> {
    connected(async { server.client()?.elections().await }).await
}

/// The same, for locks held by other callers.
pub async fn connect_admin(server: &ServerArgs) -> Result<AdminClient, Failure> {
    connected(async { server.client()?.admin().await }).await
}

/// The result of connecting.
pub(crate) async fn connected<T>(
    connecting: impl Future<Output = Result<T, Error>>,
) -> Result<T, Failure> {
    let connected = connecting.await;
    connected.map_err(|error| Failure::from_error(&error, Effect::Reads))
}
