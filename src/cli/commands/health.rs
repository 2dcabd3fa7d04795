//! Whether a coordinator serves.

use std::{io, net::SocketAddr, time::Duration};

use tokio::time::timeout;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::{
    ended::{Ended, reading},
    own::Own,
};
use crate::{
    args::ServerArgs,
    client::{connected, short},
    exit,
    failure::Failure,
    output::print,
};

/// What readiness probes ask for.
const SERVICE: &str = "lockkeeper.v1.LockService";

/// How long the admin port may take to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

const NOT_SERVING: &str = "the coordinator does not serve: it is stopping, or its store does not \
                           answer or takes no writes";

/// Asks the standard health service, which needs no bearer token, or the admin port of the
/// coordinator of this container.
pub(crate) async fn health(server: ServerArgs, own: Option<Own>) -> Ended {
    let request = HealthCheckRequest {
        service: SERVICE.to_owned(),
    };
    let answer = match own {
        Some(Own {
            admin: Some(admin), ..
        }) => return ended(is_ready(admin).await?),
        Some(own) => {
            let channel = own.channel().await.map_err(Failure::unavailable)?;
            HealthClient::new(channel).check(short(request)).await
        }
        None => {
            let transport = connected(async { server.client()?.transport().await }).await?;
            HealthClient::new(transport).check(short(request)).await
        }
    };
    ended(answer.map_err(reading)?.into_inner().status() == ServingStatus::Serving)
}

async fn is_ready(admin: SocketAddr) -> Result<bool, Failure> {
    let ready = timeout(PROBE_TIMEOUT, Own::is_ready(admin)).await;
    ready
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(|error| Failure::unavailable(format!("no admin port at {admin}: {error}")))
}

fn ended(is_serving: bool) -> Ended {
    if is_serving {
        print("serving\n")?;
        return Ok(exit::OK);
    }
    Err(Failure::local(exit::UNAVAILABLE, NOT_SERVING))
}
