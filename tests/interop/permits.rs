//! The steps of tests with semaphores, on our side and on Java's.

use std::time::Duration;

use lockkeeper_api::pb::{
    self, acquire_permits_response::Event, semaphore_service_client::SemaphoreServiceClient,
};
use lockkeeper_testkit::prelude::*;
use tokio::{task::JoinHandle, time::Instant};
use tonic::{Status, Streaming, transport::Channel};

use crate::{
    agent::Told,
    client::{Session, proto},
    redisson::{JavaThread, Kind, millis_text},
    world::{World, timed},
};

/// The semaphore of these tests.
pub(crate) const NAME: &str = "pool";

/// An owner of ours in a session of its own.
pub(crate) struct Ours {
    api: SemaphoreServiceClient<Channel>,
    pub(crate) session: Session,
}

// === impl Ours ===

impl Ours {
    pub(crate) async fn of(world: &World) -> Self {
        Self::at(world, 0, None).await
    }

    pub(crate) async fn at(world: &World, coordinator: usize, lease: Option<Duration>) -> Self {
        let client = world.coordinators[coordinator].client().await;
        let ours = world.ours_at(coordinator, Kind::Plain, "", lease).await;
        Self {
            api: SemaphoreServiceClient::new(client.channel()),
            session: ours.session,
        }
    }

    pub(crate) async fn set_permits(
        &mut self,
        permits: u32,
        only_if_absent: bool,
    ) -> pb::SetPermitsResponse {
        let request = pb::SetPermitsRequest {
            name: NAME.to_owned(),
            permits,
            only_if_absent,
        };
        self.api.set_permits(request).await.unwrap().into_inner()
    }

    pub(crate) async fn try_acquire(&mut self, permits: u32) -> pb::TryAcquirePermitsResponse {
        let request = pb::TryAcquirePermitsRequest::named(NAME)
            .of_session(self.session.id())
            .permits(permits);
        let answer = self.api.try_acquire_permits(request).await;
        answer.unwrap().into_inner()
    }

    pub(crate) async fn send(
        &mut self,
        permits: u32,
        lease: Option<Duration>,
    ) -> Streaming<pb::AcquirePermitsResponse> {
        let request = pb::AcquirePermitsRequest {
            name: NAME.to_owned(),
            session_id: self.session.id(),
            permits,
            lease: lease.map(proto),
            ..Default::default()
        };
        let answer = self.api.acquire_permits(request).await;
        answer.unwrap().into_inner()
    }

    /// Asks for permits and is told to wait.
    pub(crate) async fn wait(&mut self, permits: u32) -> JoinHandle<(Instant, pb::PermitGrant)> {
        let mut events = self.send(permits, None).await;
        match events.message().await.unwrap().unwrap().event {
            Some(Event::Waiting(_)) => timed(granted(events)),
            other => panic!("expected waiting, got {other:?}"),
        }
    }

    pub(crate) async fn acquire(&mut self, permits: u32) -> pb::PermitGrant {
        granted(self.send(permits, None).await).await
    }

    pub(crate) async fn acquire_for(&mut self, permits: u32, lease: Duration) -> pb::PermitGrant {
        granted(self.send(permits, Some(lease)).await).await
    }

    /// Who holds how many. Redisson's permits have no owner.
    pub(crate) async fn holders(&mut self) -> Vec<(String, u32)> {
        let request = pb::DescribeSemaphoreRequest {
            name: NAME.to_owned(),
        };
        let seen = self.api.describe_semaphore(request).await.unwrap();
        let holders = seen.into_inner().holders.into_iter();
        let mut holders: Vec<_> = holders.map(|it| (it.owner, it.permits)).collect();
        holders.sort();
        holders
    }

    /// Gives permits back; all that it has if none are named.
    pub(crate) async fn release(
        &mut self,
        permit_ids: &[String],
    ) -> Result<pb::ReleasePermitsResponse, Status> {
        let request = pb::ReleasePermitsRequest::named(NAME)
            .of_session(self.session.id())
            .ids(permit_ids);
        Ok(self.api.release_permits(request).await?.into_inner())
    }
}

async fn granted(mut events: Streaming<pb::AcquirePermitsResponse>) -> pb::PermitGrant {
    while let Some(response) = events.message().await.unwrap() {
        match response.event {
            Some(Event::Waiting(_)) => {}
            Some(Event::Granted(grant)) => return grant,
            other => panic!("expected granted, got {other:?}"),
        }
    }
    panic!("the stream ended without an answer");
}

pub(crate) fn java_acquires(thread: &JavaThread, permits: u32, lease: Option<Duration>) -> Told {
    let lease = lease.map_or_else(|| "-1".to_owned(), millis_text);
    thread.tell(&["semaphore-acquire", NAME, &permits.to_string(), &lease])
}

/// "no", or the ids.
pub(crate) fn java_tries(thread: &JavaThread, permits: u32, wait: Duration) -> Told {
    let permits = permits.to_string();
    thread.tell(&["semaphore-try", NAME, &permits, &millis_text(wait), "-1"])
}

pub(crate) fn java_releases(thread: &JavaThread, ids: &str) -> Told {
    thread.tell(&["semaphore-release", NAME, ids])
}

pub(crate) async fn java_sees(thread: &JavaThread) -> String {
    thread.tell(&["semaphore-available", NAME]).value().await
}
