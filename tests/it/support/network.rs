//! In-memory connections to coordinators that break, or cannot be made, when a test says so.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use hyper_util::rt::TokioIo;
use lockkeeper_client::{Client, ClientBuilder, Wire};
use lockkeeper_server::grpc::Peer;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::arrived::{Arrived, BUFFER, pump};

type Accept = mpsc::UnboundedSender<io::Result<Arrived>>;

/// The ways to all coordinators.
#[derive(Clone)]
pub(crate) struct Network {
    nodes: Arc<[Way]>,
}

struct Way {
    accept: Accept,
    is_down: AtomicBool,
    cut: Mutex<CancellationToken>,
    connections: AtomicUsize,
}

// === impl Network ===

impl Network {
    pub(crate) fn new(nodes: impl Iterator<Item = Accept>) -> Self {
        let nodes = nodes.map(|accept| Way {
            accept,
            is_down: AtomicBool::new(false),
            cut: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// A client that knows these coordinators, in this order.
    pub(crate) fn client(&self, nodes: &[usize]) -> Client {
        let nodes = nodes.iter().map(|node| format!("http://node:{node}"));
        let builder = nodes.fold(Client::builder(), |builder: ClientBuilder, address| {
            builder.endpoint(&address).unwrap()
        });
        let network = self.clone();
        let dial = move |address: lockkeeper_client::Address| {
            let dialled = network.dial(address.as_str());
            let dialled: futures::future::BoxFuture<'static, _> =
                Box::pin(std::future::ready(dialled));
            dialled
        };
        builder.dial(dial).build().unwrap()
    }

    fn dial(&self, address: &str) -> io::Result<Box<dyn Wire>> {
        let number: usize = address.rsplit(':').next().unwrap().parse().unwrap();
        let node = &self.nodes[number];
        if node.is_down.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, near_end) = tokio::io::duplex(BUFFER);
        let (far_end, far) = tokio::io::duplex(BUFFER);
        pump(near_end, far_end, node.cut.lock().clone());
        let arrived = Arrived {
            stream: far,
            peer: Peer::default(),
        };
        node.accept.send(Ok(arrived)).map_err(io::Error::other)?;
        node.connections.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(TokioIo::new(near)))
    }

    /// All connections to a coordinator break; new ones can be made.
    pub(crate) fn cut(&self, node: usize) {
        std::mem::take(&mut *self.nodes[node].cut.lock()).cancel();
    }

    /// They break, and no new ones can be made until this is taken back.
    pub(crate) fn set_down(&self, node: usize, is_down: bool) {
        self.nodes[node].is_down.store(is_down, Ordering::Relaxed);
        if is_down {
            self.cut(node);
        }
    }

    /// How many were made.
    pub(crate) fn connections(&self, node: usize) -> usize {
        self.nodes[node].connections.load(Ordering::Relaxed)
    }
}
