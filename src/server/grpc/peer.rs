//! The peer of a connection, and what it uses up before it has shown credentials.
//!
//! A connection without credentials, where they are required, is read slowly, has few calls at
//! once, and is the first to be closed when there are too many of its kind.

use std::{
    net::{IpAddr, SocketAddr},
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Waker,
    time::Duration,
};

use futures::task::AtomicWaker;
use lockkeeper_access::Identity;
use lockkeeper_coordinator::PeerAddress;
use rand::RngExt as _;
use tokio::time::Instant;

use super::listen::tls::ClientCertificate;

/// Calls without credentials in progress on one connection.
const UNAUTHENTICATED_CALLS_MAX: usize = 32;

/// How much longer than their connection its streams may go on, as a part of its age.
const STREAMS_LONGER: Range<f64> = 0.01..0.1;

/// Watches of the health on one connection.
const WATCHES_MAX: usize = 16;

/// The peer of a connection; in the extensions of each of its calls.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// None for a Unix-domain socket.
    pub address: Option<SocketAddr>,
    /// The identity of the connection: from its certificate, or the user of a Unix-domain socket.
    pub identity: Option<Identity>,
    /// The certificate, if it showed one.
    pub certificate: Option<ClientCertificate>,
    /// What the connection uses.
    pub usage: Arc<Usage>,
}

/// What one connection uses.
#[derive(Debug, Default)]
pub struct Usage {
    /// When its streams end, so that it can be closed.
    streams_end: Option<Instant>,
    /// Whether it has shown valid credentials, or needs none.
    is_authenticated: AtomicBool,
    is_closed: AtomicBool,
    /// Calls without credentials in progress.
    calls: AtomicUsize,
    /// Watches of its health.
    watches: AtomicUsize,
    /// Bytes of messages that have begun and are incomplete.
    pub(super) unfinished: AtomicUsize,
    /// The connection, while it waits to be read.
    reader: AtomicWaker,
}

/// A counted use; dropping this ends it.
#[derive(Debug)]
pub(super) struct Used {
    usage: Arc<Usage>,
    count: fn(&Usage) -> &AtomicUsize,
}

// === impl Peer ===

impl Peer {
    /// The address that other callers may see.
    pub(super) fn address(&self) -> PeerAddress {
        self.address.map_or(PeerAddress::Unix, PeerAddress::Tcp)
    }

    /// The address without its port.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.address.map(|address| address.ip())
    }
}

// === impl Usage ===

impl Usage {
    /// Of a connection that is closed at this age. Its streams end a little later, each connection
    /// at another moment, so that not all clients come back at once.
    pub fn until(age_max: Option<Duration>) -> Self {
        let part = rand::rng().random_range(STREAMS_LONGER);
        Self {
            streams_end: age_max.map(|age| Instant::now() + age.mul_f64(1.0 + part)),
            ..Self::default()
        }
    }

    /// Resolves when the streams of the connection are to end.
    pub(super) async fn aged(&self) {
        match self.streams_end {
            Some(end) => tokio::time::sleep_until(end).await,
            None => std::future::pending().await,
        }
    }

    /// Whether [`Usage::aged`] ever resolves.
    pub(super) fn ages(&self) -> bool {
        self.streams_end.is_some()
    }

    /// The connection has shown valid credentials, or needs none.
    pub(super) fn authenticate(&self) {
        if !self.is_authenticated() {
            self.is_authenticated.store(true, Ordering::Release);
            self.reader.wake();
        }
    }

    pub(super) fn is_authenticated(&self) -> bool {
        self.is_authenticated.load(Ordering::Acquire)
    }

    /// Closes the connection soon: its next read fails.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.reader.wake();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Whether the connection is to be closed. If not, its reader is woken when it is.
    pub(super) fn is_closed_for(&self, reader: &Waker) -> bool {
        self.reader.register(reader);
        self.is_closed()
    }

    /// Counts a call without credentials; none if there are too many.
    pub(super) fn call(self: &Arc<Self>) -> Option<Used> {
        self.one_more(|usage| &usage.calls, UNAUTHENTICATED_CALLS_MAX)
    }

    /// Counts a watch of the health; none if there are too many.
    pub(super) fn watch(self: &Arc<Self>) -> Option<Used> {
        self.one_more(|usage| &usage.watches, WATCHES_MAX)
    }

    fn one_more(self: &Arc<Self>, count: fn(&Self) -> &AtomicUsize, max: usize) -> Option<Used> {
        let one_more = |now: usize| (now < max).then(|| now + 1);
        let counted = count(self).fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.ok().map(|_| Used {
            usage: Arc::clone(self),
            count,
        })
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        (self.count)(&self.usage).fetch_sub(1, Ordering::Relaxed);
    }
}
