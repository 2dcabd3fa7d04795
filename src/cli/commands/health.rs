//! Whether a coordinator serves.

use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::ended::{Ended, reading};
use crate::{
    args::ServerArgs,
    client::{connected, short},
    exit,
    failure::Failure,
    output::print,
};

/// What readiness probes ask for.
const SERVICE: &str = "lockkeeper.v1.LockService";

/// Asks the standard health service, which needs no bearer token.
pub(crate) async fn health(server: ServerArgs) -> Ended {
    let transport = connected(async { server.client()?.transport().await }).await?;
    let request = HealthCheckRequest {
        service: SERVICE.to_owned(),
    };
    let answer = HealthClient::new(transport).check(short(request)).await;
    let status = answer.map_err(reading)?.into_inner().status();
    if status == ServingStatus::Serving {
        print("serving\n")?;
        return Ok(exit::OK);
    }
    let why = "the coordinator does not serve: it is stopping, or its store does not answer";
    Err(Failure::local(exit::UNAVAILABLE, why))
}
