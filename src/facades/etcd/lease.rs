//! `etcdserverpb.Lease`.

use std::future::ready;

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use lockkeeper_access::Account;
use lockkeeper_coordinator::Error;
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};

use super::{
    etcdserverpb::{
        LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
        LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse,
        LeaseStatus, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, lease_server,
    },
    key::{header, key},
    leases::Leases,
};
use crate::{Door, door::account};

/// What the time to live of a lease is that does not exist.
const NO_LEASE: i64 = -1;

/// Keepalives of one stream that wait for the store at the same time. A client keeps all of its
/// leases alive by one stream.
const KEEPALIVES_AT_ONCE: usize = 64;

/// Serves `etcdserverpb.Lease`.
#[derive(Clone, Debug)]
pub(super) struct LeaseService {
    door: Door,
    leases: Leases,
}

// === impl LeaseService ===

impl LeaseService {
    pub(super) fn new(door: Door, leases: Leases) -> Self {
        Self { door, leases }
    }

    async fn keep_alive(
        &self,
        account: &Account,
        id: i64,
    ) -> Result<LeaseKeepAliveResponse, Status> {
        let counted = account.request().map_err(Error::from);
        counted.map_err(|error| (self.door.status)(&error))?;
        let left = self.leases.keep_alive(&self.door, account, id).await;
        Ok(LeaseKeepAliveResponse {
            header: Some(header(0)),
            id,
            ttl: left.map_or(0, seconds),
        })
    }
}

#[tonic::async_trait]
impl lease_server::Lease for LeaseService {
    type LeaseKeepAliveStream = BoxStream<'static, Result<LeaseKeepAliveResponse, Status>>;

    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        let account = account(request.extensions());
        self.door.admit(&account, "LeaseGrant", "")?;
        let LeaseGrantRequest { ttl, id } = request.into_inner();
        let held = self.leases.grant(&self.door, &account, (id, ttl))?;
        Ok(Response::new(LeaseGrantResponse {
            header: Some(header(0)),
            id: held.id,
            ttl: seconds(held.ttl),
            error: String::new(),
        }))
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        let account = account(request.extensions());
        let id = request.get_ref().id;
        self.leases.revoke(&self.door, &account, id).await?;
        Ok(Response::new(LeaseRevokeResponse {
            header: Some(header(0)),
        }))
    }

    /// Each message counts as a request of its caller. A lease that has ended has no time to live.
    /// The stream ends when the coordinator drains, so that it does not delay the exit.
    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let account = account(request.extensions());
        let (service, status) = (self.clone(), self.door.status);
        let answers = request.into_inner().map(move |asked| {
            let (service, account) = (service.clone(), account.clone());
            async move { service.keep_alive(&account, asked?.id).await }
        });
        let answers = answers.buffered(KEEPALIVES_AT_ONCE);
        let coordinator = self.door.coordinator.clone();
        let draining = async move {
            coordinator.draining().await;
            Some(Err(status(&Error::Draining)))
        };
        let answers = answers.map(Some).chain(stream::iter([None]));
        let answers = stream::select(answers, stream::once(draining));
        let answers = answers.take_while(|answer| ready(answer.is_some()));
        Ok(Response::new(answers.filter_map(ready).boxed()))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        let account = account(request.extensions());
        let LeaseTimeToLiveRequest { id, keys } = request.into_inner();
        let held = self.leases.find(&account, id);
        let names = held.iter().filter(|_| keys);
        let names = names.flat_map(|held| held.stream.names());
        Ok(Response::new(LeaseTimeToLiveResponse {
            header: Some(header(0)),
            id,
            keys: names.map(|name| key(name.public(), id)).collect(),
            ttl: held.as_ref().map_or(NO_LEASE, |held| {
                seconds(held.until.saturating_duration_since(Instant::now()))
            }),
            granted_ttl: held.map_or(0, |held| seconds(held.ttl)),
        }))
    }

    async fn lease_leases(
        &self,
        request: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        let own = self.leases.of(&account(request.extensions()));
        Ok(Response::new(LeaseLeasesResponse {
            header: Some(header(0)),
            leases: own.into_iter().map(|id| LeaseStatus { id }).collect(),
        }))
    }
}

fn seconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}
