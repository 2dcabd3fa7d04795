//! Locks of etcd: its `Lock` and `Unlock` calls with a lease that each caller is granted once. Only
//! the fields that are used have a message.

use anyhow::Context as _;
use futures::future::try_join_all;
use tokio::time::Instant;
use tonic::{
    Request,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use crate::{
    args::Load,
    load::{self, Measured, Names},
};

const OWN_NAMES: Names = Names {
    scenario: "etcd",
    pairs: "pairs",
    latencies: ["acquire", "release", "pair"],
};

const ONE_NAME: Names = Names {
    scenario: "etcd-hot",
    pairs: "handovers",
    latencies: ["wait", "release", "pair"],
};

const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const LOCK: &str = "/v3lockpb.Lock/Lock";
const UNLOCK: &str = "/v3lockpb.Lock/Unlock";

/// Longer than any measurement, so that nobody has to renew it.
const LEASE_SECONDS: i64 = 3600;

#[derive(Clone, PartialEq, prost::Message)]
struct LeaseWanted {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LeaseGranted {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Lock {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Locked {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Unlock {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Unlocked {}

/// Measures. `hot`: all callers want the same lock, each waits for its turn.
pub(crate) async fn run(
    server: &str,
    connections: usize,
    hot: bool,
    load: &Load,
) -> anyhow::Result<Measured> {
    let endpoint = Endpoint::from_shared(server.to_owned())?.tcp_nodelay(true);
    let channels = (0..connections).map(|_| endpoint.connect());
    let channels = try_join_all(channels).await.context("etcd")?;
    let leases = (0..load.in_flight).map(|number| {
        let channel = channels[number % connections].clone();
        let seconds = LEASE_SECONDS;
        call::<_, LeaseGranted>(channel, GRANT, LeaseWanted { seconds })
    });
    let leases = try_join_all(leases).await?;
    let names = if hot { ONE_NAME } else { OWN_NAMES };
    load::run(names, load, |number| {
        let channel = channels[number % connections].clone();
        let lease = leases[number].id;
        let name = if hot {
            "bench".to_owned()
        } else {
            format!("bench-{number}")
        };
        move || {
            let (channel, name) = (channel.clone(), name.clone().into_bytes());
            async move {
                let asked = Instant::now();
                let locked: Locked = call(channel.clone(), LOCK, Lock { name, lease }).await?;
                let taken = Instant::now();
                let key = locked.key;
                let _: Unlocked = call(channel, UNLOCK, Unlock { key }).await?;
                Ok([asked, taken, Instant::now()])
            }
        }
    })
    .await
}

async fn call<Q, R>(channel: Channel, path: &'static str, request: Q) -> anyhow::Result<R>
where
    Q: prost::Message + Send + Sync + 'static,
    R: prost::Message + Default + Send + Sync + 'static,
{
    let mut client = Grpc::new(channel);
    client.ready().await.context(path)?;
    let codec = ProstCodec::<Q, R>::default();
    let path_of_call = PathAndQuery::from_static(path);
    let answer = client.unary(Request::new(request), path_of_call, codec);
    Ok(answer.await.context(path)?.into_inner())
}
