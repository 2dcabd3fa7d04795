//! Connecting to a coordinator.

use lockkeeper_client::{AdminClient, Error, LatchClient, LockClient, SemaphoreClient};

use super::{
    args::ServerArgs,
    failure::{Effect, Failure},
};

pub use lockkeeper_client::short;

/// The generated client.
pub type Client = LockClient;

/// Connects. Done before the first call, so that a failure means that nothing was sent.
pub async fn connect(server: &ServerArgs) -> Result<Client, Failure> {
    let connected = async { server.client()?.locks().await };
    connected.await.map_err(not_connected)
}

/// The same, for semaphores.
pub async fn connect_semaphores(server: &ServerArgs) -> Result<SemaphoreClient, Failure> {
    let connected = async { server.client()?.semaphores().await };
    connected.await.map_err(not_connected)
}

/// The same, for latches.
pub async fn connect_latches(server: &ServerArgs) -> Result<LatchClient, Failure> {
    let connected = async { server.client()?.latches().await };
    connected.await.map_err(not_connected)
}

/// The same, for locks held by other callers.
pub async fn connect_admin(server: &ServerArgs) -> Result<AdminClient, Failure> {
    let connected = async { server.client()?.admin().await };
    connected.await.map_err(not_connected)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn not_connected(error: Error) -> Failure {
    Failure::from_error(&error, Effect::Reads)
}
