//! Locks held by other callers: listed, released by force, and watched.

mod contention;
mod end_session;
mod force;
mod grace;
mod list;
mod pages;
mod watch;

use lockkeeper_api::pb::lock_admin_service_client::LockAdminServiceClient;
use tonic::transport::Channel;

use crate::support::prelude::*;

type Admin = LockAdminServiceClient<Channel>;

pub(crate) fn admin(client: &Client) -> Admin {
    LockAdminServiceClient::new(client.channel())
}

pub(crate) async fn force(
    admin: &mut Admin,
    name: &str,
    reason: &str,
) -> Result<pb::ForceReleaseResponse, tonic::Status> {
    force_within(admin, name, reason, Duration::ZERO).await
}

async fn force_within(
    admin: &mut Admin,
    name: &str,
    reason: &str,
    grace: Duration,
) -> Result<pb::ForceReleaseResponse, tonic::Status> {
    let request = pb::ForceReleaseRequest {
        name: name.to_owned(),
        reason: reason.to_owned(),
        grace_period: Some(proto(grace)),
    };
    Ok(admin.force_release(request).await?.into_inner())
}
