//! How coordinators reach each other: in memory, by `http://node:NUMBER`.

use std::{io, sync::Arc, time::Duration};

use hyper_util::rt::TokioIo;
use lockkeeper_server::{fleet::Connect, grpc::Peer};
use parking_lot::Mutex;
use tokio::{io::DuplexStream, sync::mpsc};
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;

use super::arrived::{Arrived, BUFFER, pump};

/// How coordinators reach each other.
#[derive(Clone, Default)]
pub(crate) struct Roads(Arc<Mutex<Vec<Road>>>);

struct Road {
    leads: Leads,
    cut: CancellationToken,
    connections: usize,
}

enum Leads {
    To(mpsc::UnboundedSender<io::Result<Arrived>>),
    /// Connections are refused.
    Nowhere,
    /// Connections are made, and nothing answers.
    Astray(Vec<DuplexStream>),
}

// === impl Roads ===

impl Roads {
    pub(super) fn add(&self, accept: mpsc::UnboundedSender<io::Result<Arrived>>) {
        self.0.lock().push(Road {
            leads: Leads::To(accept),
            cut: CancellationToken::new(),
            connections: 0,
        });
    }

    pub(super) fn connect(&self) -> Arc<Connect> {
        let roads = self.clone();
        Arc::new(move |address| {
            let number = address.rsplit(':').next().unwrap().parse().unwrap();
            let roads = roads.clone();
            let dial = tower::service_fn(move |_| {
                let dialled = roads.dial(number);
                async move { dialled.map(TokioIo::new) }
            });
            let endpoint = Endpoint::from_static("http://in-memory");
            let endpoint = endpoint.connect_timeout(Duration::from_secs(2));
            Ok(endpoint.connect_with_connector_lazy(dial))
        })
    }

    fn dial(&self, number: usize) -> io::Result<DuplexStream> {
        let mut roads = self.0.lock();
        let road = &mut roads[number];
        let (near, near_end) = tokio::io::duplex(BUFFER);
        match &mut road.leads {
            Leads::Nowhere => return Err(io::ErrorKind::ConnectionRefused.into()),
            Leads::Astray(ends) => ends.push(near_end),
            Leads::To(accept) => {
                let (far_end, stream) = tokio::io::duplex(BUFFER);
                pump(near_end, far_end, road.cut.clone());
                let peer = Peer::default();
                let arrived = Ok(Arrived { stream, peer });
                accept.send(arrived).map_err(io::Error::other)?;
            }
        }
        road.connections += 1;
        Ok(near)
    }

    /// How many connections were made to a coordinator.
    pub(crate) fn connections(&self, node: usize) -> usize {
        self.0.lock()[node].connections
    }

    /// A coordinator can not be reached any more.
    pub(crate) fn close(&self, node: usize) {
        self.lead(node, Leads::Nowhere);
    }

    /// A coordinator answers nothing any more.
    pub(crate) fn lead_astray(&self, node: usize) {
        self.lead(node, Leads::Astray(Vec::new()));
    }

    /// Another coordinator has taken the address of this one over.
    pub(crate) fn lead_to(&self, node: usize, other: usize) {
        let accept = match &self.0.lock()[other].leads {
            Leads::To(accept) => accept.clone(),
            Leads::Nowhere | Leads::Astray(_) => panic!("it can not be reached"),
        };
        self.lead(node, Leads::To(accept));
    }

    fn lead(&self, node: usize, leads: Leads) {
        let mut roads = self.0.lock();
        roads[node].leads = leads;
        std::mem::take(&mut roads[node].cut).cancel();
    }
}
