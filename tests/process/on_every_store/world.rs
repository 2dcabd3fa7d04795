//! What a story acts in: a deployment, coordinators on it, and their clients.

use std::io;

use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;

use crate::prelude::*;
use crate::stores::{Deployment, Store};

/// The lease of sessions in the stories that wait for renewals or for its end.
pub(super) const LEASE: Duration = secs(3);

/// Longer than what a story waits for: what comes sooner was brought by a message, or by the end of
/// a lease.
const POLL_INTERVAL: &str = "10s";

/// What a busy machine may add to a lease, to a limit, or to what is done at once; well below a
/// poll.
pub(super) const LATE_MAX: Duration = secs(3);

/// Shared by the stories of one store, each of which has names of its own.
#[derive(Clone)]
pub(super) struct World(Arc<Inner>);

struct Inner {
    kind: Store,
    store: Deployment,
    coordinators: Vec<Coordinator>,
}

// === impl World ===

impl World {
    /// Two coordinators on a deployment of its own, or the one that the embedded store can have.
    pub(super) async fn on(kind: Store) -> Self {
        let store = kind.start().await;
        let settings = settings(&store);
        let mut coordinators = vec![Coordinator::start(&settings).await];
        if kind.is_shared() {
            coordinators.push(Coordinator::start(&settings).await);
        }
        Self(Arc::new(Inner {
            kind,
            store,
            coordinators,
        }))
    }

    pub(super) fn kind(&self) -> Store {
        self.0.kind
    }

    pub(super) fn store(&self) -> &Deployment {
        &self.0.store
    }

    /// One more coordinator, which a story may do anything to.
    pub(super) async fn another_coordinator(&self) -> Coordinator {
        let coordinator = Coordinator::start(&settings(&self.0.store)).await;
        expect_serving(&coordinator).await;
        coordinator
    }

    /// A client of one of the coordinators; the numbers go round.
    pub(super) async fn client(&self, number: usize) -> Client {
        self.coordinator(number).client().await
    }

    fn coordinator(&self, number: usize) -> &Coordinator {
        &self.0.coordinators[number % self.0.coordinators.len()]
    }

    /// A client whose [`Client::cut`] breaks its connection, as its death would.
    pub(super) async fn mortal_client(&self, number: usize) -> Client {
        let (address, cut) = (self.coordinator(number).address(), CancellationToken::new());
        let by = cut.clone();
        let connector = tower::service_fn(move |_| {
            let cut = by.clone();
            async move {
                let mut far = TcpStream::connect(address).await?;
                let (near, mut end) = tokio::io::duplex(64 * 1024);
                spawn_detached("mortal", async move {
                    tokio::select! {
                        () = cut.cancelled() => {}
                        _ = tokio::io::copy_bidirectional(&mut end, &mut far) => {}
                    }
                });
                Ok::<_, io::Error>(TokioIo::new(near))
            }
        });
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let channel = endpoint.connect_with_connector(connector).await.unwrap();
        Client::new(channel, cut)
    }

    /// Both coordinators have connected and serve.
    pub(super) async fn until_serving(&self) {
        for coordinator in &self.0.coordinators {
            expect_serving(coordinator).await;
        }
    }
}

fn settings(store: &Deployment) -> Settings {
    let settings = store.settings();
    settings
        .with("session.secret", "a secret of all the coordinators here")
        .with("store.poll_interval", POLL_INTERVAL)
}
