//! `grpc.health.v1`. The store is probed only on request, so an idle coordinator sends it nothing.
//!
//! The empty service is the process; those of `lockkeeper.v1` also need the store. All are
//! `NOT_SERVING` from the start of a drain.

use std::{pin::Pin, sync::Arc, time::Duration};

use lockkeeper_coordinator::Coordinator;
use tokio::{sync::Mutex, time::Instant};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{Health, HealthServer},
};

/// The services that need the store.
const SERVICES: [&str; 3] = [
    "lockkeeper.v1.LockService",
    "lockkeeper.v1.SemaphoreService",
    "lockkeeper.v1.LatchService",
];

/// How long a probe's result is valid, and the interval of a watch.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Serves `grpc.health.v1`.
#[derive(Clone, Debug)]
pub(super) struct HealthService {
    coordinator: Coordinator,
    /// The time of the last probe of the store, and whether it answered.
    probed: Arc<Mutex<Option<(Instant, bool)>>>,
}

// === impl HealthService ===

impl HealthService {
    pub(super) fn server(coordinator: Coordinator) -> HealthServer<Self> {
        HealthServer::new(Self {
            coordinator,
            probed: Arc::default(),
        })
    }

    /// None for an unknown service.
    async fn status(&self, service: &str) -> Option<ServingStatus> {
        let serving = match service {
            "" => !self.coordinator.is_draining(),
            service if SERVICES.contains(&service) => {
                !self.coordinator.is_draining() && self.store_answers().await
            }
            _ => return None,
        };
        Some(if serving {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        })
    }

    /// Concurrent callers share one probe.
    async fn store_answers(&self) -> bool {
        let mut probed = self.probed.lock().await;
        match *probed {
            Some((at, answers)) if at.elapsed() < PROBE_INTERVAL => answers,
            _ => {
                let answers = self.coordinator.probe().await.is_ok();
                *probed = Some((Instant::now(), answers));
                answers
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
        let service = request.into_inner().service;
        let status = self.status(&service).await;
        let status = status.ok_or_else(|| Status::not_found(format!("no service {service:?}")))?;
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
        let (this, service) = (self.clone(), request.into_inner().service);
        // Ends with the drain, so that a watcher does not delay the exit.
        let changes = futures::stream::unfold(None, move |told: Option<ServingStatus>| {
            let (this, service) = (this.clone(), service.clone());
            async move {
                loop {
                    // Read first: a drain that begins later shows in the next round, so the stream
                    // sends NOT_SERVING before it ends.
                    let draining = this.coordinator.is_draining();
                    let status = this
                        .status(&service)
                        .await
                        .unwrap_or(ServingStatus::ServiceUnknown);
                    if told != Some(status) {
                        let answer = HealthCheckResponse {
                            status: status.into(),
                        };
                        return Some((Ok(answer), Some(status)));
                    }
                    if draining {
                        return None;
                    }
                    tokio::time::sleep(PROBE_INTERVAL).await;
                }
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }
}
