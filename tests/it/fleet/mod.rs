//! Several coordinators as one: they find each other in the store, and each asks the others.

mod asked;
mod missing;
mod rights;
mod watched;

use lockkeeper_api::pb::lock_admin_service_client::LockAdminServiceClient;
use tonic::transport::Channel;

use crate::support::prelude::*;

type Admin = LockAdminServiceClient<Channel>;

fn options(coordinators: usize) -> Options {
    Options::with(|it| {
        it.coordinators = coordinators;
        it.fleet = true;
    })
}

/// Coordinators that know each other.
async fn world_of(coordinators: usize) -> World {
    let world = World::with(&options(coordinators));
    until_known(&world, coordinators).await;
    world
}

/// Waits until the first coordinator knows of so many.
async fn until_known(world: &World, coordinators: usize) {
    let admin = admin(world, 0).await;
    crate::support::eventually("they know each other", || async {
        let listed = coordinators_of(&admin).await;
        listed.coordinators.len() + listed.unasked.len() == coordinators
    })
    .await;
}

async fn admin(world: &World, node: usize) -> Admin {
    LockAdminServiceClient::new(world.client(node).await.channel())
}

async fn coordinators_of(admin: &Admin) -> pb::ListCoordinatorsResponse {
    let request = pb::ListCoordinatorsRequest { fleet: true };
    admin
        .clone()
        .list_coordinators(request)
        .await
        .unwrap()
        .into_inner()
}

async fn sessions_of(admin: &Admin) -> pb::ListSessionsResponse {
    let request = pb::ListSessionsRequest {
        fleet: true,
        ..Default::default()
    };
    admin
        .clone()
        .list_sessions(request)
        .await
        .unwrap()
        .into_inner()
}

/// What is missing, and why.
fn missing(unasked: &[pb::UnaskedCoordinator]) -> Vec<(&str, &str)> {
    let missing = unasked.iter();
    missing
        .map(|it| (it.coordinator.as_str(), it.reason.as_str()))
        .collect()
}
