//! A sanity check of speed, as ratios measured in one run on one machine: what a lock costs on top
//! of a call that does nothing, what frames on a session's stream save, and what the store costs.
//! `cargo bench --bench sanity`
//!
//! Servers and callers share this process and its cores, and the variants take turns, so that
//! whatever else the machine does falls on all of them alike.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people, which has nobody to tell but them"
)]

#[path = "sanity/bare.rs"]
mod bare;
#[path = "sanity/callers.rs"]
mod callers;

use std::{net::SocketAddr, time::Duration};

use futures::future::join_all;
use tokio::net::TcpListener;
use tonic::transport::{Channel, Endpoint};

use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_server::config::{Settings, StoreUrl};
use lockkeeper_testkit::{cluster::Cluster, redis_server::RedisServer};

const CONNECTIONS: usize = 4;
const IN_FLIGHT: usize = 64;
const ROUNDS: usize = 7;
const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_millis(1500);

/// One way of taking and giving back locks.
struct Variant {
    name: &'static str,
    channels: Vec<Channel>,
    frames: bool,
    /// Pairs of a try and a release in a second, by round.
    rates: Vec<f64>,
}

#[tokio::main]
async fn main() {
    let redis = RedisServer::start().await;
    let members = [
        RedisServer::start().await,
        RedisServer::start().await,
        RedisServer::start().await,
    ];
    let cluster = Cluster::start().await;
    let on_redis = serve(&[redis.url()]).await;
    let mut variants = [
        Variant::new(
            "a  a unary call that does nothing",
            bare::serve().await,
            false,
        )
        .await,
        Variant::new("b  unary calls, Redis", on_redis, false).await,
        Variant::new("c  frames on a session's stream, Redis", on_redis, true).await,
        Variant::new(
            "d  unary calls, embedded store",
            serve(&["embedded:".to_owned()]).await,
            false,
        )
        .await,
        Variant::new(
            "e  frames, cluster of three masters",
            serve(&[cluster.url()]).await,
            true,
        )
        .await,
        Variant::new(
            "f  frames, quorum of three",
            serve(&members.each_ref().map(RedisServer::url)).await,
            true,
        )
        .await,
    ];
    for round in 0..=ROUNDS {
        for variant in &mut variants {
            let measured = if round == 0 { WARM_UP } else { MEASURED };
            let rate = variant.run(measured).await;
            // The first round only warms up.
            if round > 0 {
                variant.rates.push(rate);
            }
        }
    }

    println!(
        "pairs of TryAcquire and Release in a second, {IN_FLIGHT} in flight on {CONNECTIONS} connections, median of {ROUNDS} rounds (least to most)"
    );
    for variant in &mut variants {
        variant.rates.sort_by(f64::total_cmp);
        println!(
            "{:40} {:8.0}  ({:.0} to {:.0})",
            variant.name,
            variant.median(),
            variant.rates[0],
            variant.rates[ROUNDS - 1]
        );
    }
    let [bare, unary, frames, embedded, cluster, quorum] = variants.each_ref().map(Variant::median);
    println!(
        "b/a {:.2}   c/b {:.2}   d/a {:.2}   e/c {:.2}   f/c {:.2}",
        unary / bare,
        frames / unary,
        embedded / bare,
        cluster / frames,
        quorum / frames
    );
}

/// Starts a coordinator as the binary would, on a free port; several stores are a quorum.
async fn serve(stores: &[String]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut settings = Settings::default();
    match stores {
        [store] => settings.store.url = StoreUrl::from(store.as_str()),
        stores => {
            let stores = stores.iter().map(|store| StoreUrl::from(store.as_str()));
            settings.store.quorum = stores.collect();
        }
    }
    spawn_detached("server", async move {
        lockkeeper_server::serve(settings, listener, std::future::pending())
            .await
            .unwrap();
    });
    address
}

// === impl Variant ===

impl Variant {
    async fn new(name: &'static str, address: SocketAddr, frames: bool) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .unwrap()
            .tcp_nodelay(true);
        let channels = (0..CONNECTIONS).map(|_| endpoint.connect());
        let channels = join_all(channels).await.into_iter().map(Result::unwrap);
        Self {
            name,
            channels: channels.collect(),
            frames,
            rates: Vec::new(),
        }
    }

    /// Pairs in a second.
    async fn run(&self, measured: Duration) -> f64 {
        let each = IN_FLIGHT / CONNECTIONS;
        let pairs = if self.frames {
            callers::by_frames(&self.channels, each, measured).await
        } else {
            callers::by_unary_calls(&self.channels, each, measured).await
        };
        f64::from(pairs) / measured.as_secs_f64()
    }

    fn median(&self) -> f64 {
        self.rates[ROUNDS / 2]
    }
}
