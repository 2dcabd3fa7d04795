//! `grpc.health.v1`. The store is probed only while it is asked about, so an idle coordinator sends
//! it nothing.
//!
//! The empty service is the process; the others also need a store that answers and takes writes, as
//! `/readyz` does. All are `NOT_SERVING` from the start of a drain. All watches
//! share one task, which looks once a second.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{StreamExt as _, stream};
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_facades::Facades;
use tokio::{sync::watch, time::sleep};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{Health, HealthServer},
};

use super::{budgets::Budgets, messages::Sizes, peer::Peer};
use crate::probe::{PROBE_INTERVAL, StoreProbe};

/// The services that need the store.
const SERVICES: [&str; 5] = [
    "lockkeeper.v1.LockService",
    "lockkeeper.v1.SemaphoreService",
    "lockkeeper.v1.LatchService",
    "lockkeeper.v1.ElectionService",
    "lockkeeper.v1.LockAdminService",
];

/// Those of etcd and of Dapr, where they are on.
const OF_ETCD: [&str; 3] = [
    "etcdserverpb.Lease",
    "v3lockpb.Lock",
    "v3electionpb.Election",
];
const OF_DAPR: [&str; 1] = ["dapr.proto.runtime.v1.Dapr"];

/// Serves `grpc.health.v1`.
#[derive(Clone, Debug)]
pub(super) struct HealthService {
    probe: StoreProbe,
    budgets: Budgets,
    facades: Facades,
    seen: Arc<Watched>,
}

/// What all watches see.
#[derive(Debug)]
struct Watched {
    seen: watch::Sender<Seen>,
    /// Whether a task keeps it current, which it does while there are watches.
    is_kept: AtomicBool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    is_draining: bool,
    store_is_ready: bool,
}

/// What a watch follows.
#[derive(Clone, Copy, Debug)]
enum Followed {
    Process,
    Store,
    Unknown,
}

// === impl Followed ===

impl Followed {
    fn of(service: &str, facades: Facades) -> Self {
        let is_served = SERVICES.contains(&service)
            || (facades.etcd && OF_ETCD.contains(&service))
            || (facades.dapr && OF_DAPR.contains(&service));
        match service {
            "" => Self::Process,
            _ if is_served => Self::Store,
            _ => Self::Unknown,
        }
    }

    fn status(self, seen: Seen) -> ServingStatus {
        let serves = match self {
            Self::Process => !seen.is_draining,
            Self::Store => !seen.is_draining && seen.store_is_ready,
            Self::Unknown => return ServingStatus::ServiceUnknown,
        };
        if serves {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        }
    }
}

// === impl HealthService ===

impl HealthService {
    pub(super) fn server(
        probe: StoreProbe,
        budgets: Budgets,
        facades: Facades,
    ) -> HealthServer<Self> {
        let seen = Watched {
            seen: watch::Sender::new(Seen::default()),
            is_kept: AtomicBool::new(false),
        };
        let service = Self {
            probe,
            budgets,
            facades,
            seen: Arc::new(seen),
        };
        HealthServer::new(service).max_decoding_message_size(Sizes::SMALL)
    }

    async fn look(&self, followed: Followed) -> Seen {
        // Read before the probe: a drain that begins later is seen in the next round.
        let is_draining = self.probe.is_draining();
        let needs_store = matches!(followed, Followed::Store) && !is_draining;
        Seen {
            is_draining,
            store_is_ready: needs_store && self.probe.is_ready().await.is_ok(),
        }
    }

    /// What all watches see from now on, with the first look done.
    async fn follow(&self) -> watch::Receiver<Seen> {
        let receiver = self.seen.seen.subscribe();
        let seen = self.look(Followed::Store).await;
        self.seen.set(seen);
        if !self.seen.is_kept.swap(true, Ordering::AcqRel) {
            spawn_detached("health", self.clone().keep());
        }
        receiver
    }

    /// Looks once a second while there are watches, until the drain.
    async fn keep(self) {
        loop {
            while self.seen.seen.receiver_count() > 0 {
                let seen = self.look(Followed::Store).await;
                self.seen.set(seen);
                if seen.is_draining {
                    return;
                }
                sleep(PROBE_INTERVAL).await;
            }
            self.seen.is_kept.store(false, Ordering::Release);
            // A watch may have begun just before, and have found the task running.
            let is_needed = self.seen.seen.receiver_count() > 0;
            if !is_needed || self.seen.is_kept.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }
}

#[tonic::async_trait]
impl Health for HealthService {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        // The extensions hold the call's place among those without credentials.
        let (_metadata, _extensions, request) = request.into_parts();
        let followed = Followed::of(&request.service, self.facades);
        if let Followed::Unknown = followed {
            let service = &request.service;
            return Err(Status::not_found(format!("no service {service:?}")));
        }
        let status = followed.status(self.look(followed).await);
        Ok(Response::new(HealthCheckResponse {
            status: status.into(),
        }))
    }

    type WatchStream =
        Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send + 'static>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let peer = request.extensions().get::<Peer>().cloned();
        let place = self.budgets.watch(&peer.unwrap_or_default())?;
        let followed = Followed::of(&request.into_inner().service, self.facades);
        let seen = self.follow().await;
        // Ends with the drain, so that a watcher does not delay the exit.
        let begin = (seen, None, place);
        let changes = stream::unfold(Some(begin), move |state| async move {
            let (mut seen, told, place) = state?;
            loop {
                let now = *seen.borrow_and_update();
                let status = followed.status(now);
                if told != Some(status) {
                    let answer = HealthCheckResponse {
                        status: status.into(),
                    };
                    let next = (!now.is_draining).then_some((seen, Some(status), place));
                    return Some((Ok(answer), next));
                }
                if now.is_draining || seen.changed().await.is_err() {
                    return None;
                }
            }
        });
        Ok(Response::new(changes.boxed()))
    }
}

// === impl Watched ===

impl Watched {
    fn set(&self, seen: Seen) {
        self.seen.send_if_modified(|before| {
            // A drain does not end. What was looked at before it may come after it.
            let seen = Seen {
                is_draining: seen.is_draining || before.is_draining,
                ..seen
            };
            let is_new = *before != seen;
            *before = seen;
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_began_before_a_drain_does_not_end_it() {
        let watched = Watched {
            seen: watch::Sender::new(Seen::default()),
            is_kept: AtomicBool::new(false),
        };
        for is_draining in [false, true, false] {
            let store_is_ready = true;
            watched.set(Seen {
                is_draining,
                store_is_ready,
            });
        }
        let seen = *watched.seen.borrow();
        assert_eq!(Followed::Store.status(seen), ServingStatus::NotServing);
    }
}
