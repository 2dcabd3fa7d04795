//! The only file that sees every layer. Builds a coordinator from settings, serves it, and drains
//! it.

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use futures::future::{join, join_all};
use lockkeeper_access::Access;
use lockkeeper_base::{metrics::Registrar, tasks::spawn_detached};
use lockkeeper_coordinator::Coordinator;
use lockkeeper_store::{
    host::{
        self, Connected,
        embedded::{Clock, EmbeddedStore},
        redis::{ConfigError, RedisConfig, TlsCertificates},
    },
    script,
};
use prometheus_client::{metrics::info::Info, registry::Registry};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    admin::{self, Admin},
    config::{Settings, Sources, StoreUrl},
    fleet::{self, Fleet},
    grpc::{
        self,
        listen::{self, Listeners, Tls, UnixSocket},
    },
    layers::{admin_config, coordinator_config, grpc_config, listen_limits},
    pages::Samples,
    probe::StoreProbe,
    process::{dumps, memory, rlimit, stop_signals, systemd},
    reload::{Reloaded, ReloadedSecrets, ReloadedSettings},
    secret_files,
    security::{self, Security},
    sizing,
    telemetry::{self, LostLines},
};

/// Serves until SIGTERM, SIGINT or SIGHUP, then drains. The settings were loaded from these
/// sources, whose rules and quotas may change. The metrics report the commit, and lost lines of the
/// log. Fails if it cannot start.
pub async fn run(
    sources: Sources,
    settings: Settings,
    commit: &'static str,
    lost: LostLines,
) -> anyhow::Result<()> {
    dumps::refuse();
    let stop = stop_signals::first()?;
    let listener = match settings.server.listen.0 {
        Some(address) => Some(bind(address, "server.listen")?),
        None => None,
    };
    spawn_detached("lost-lines", lost.clone().report());
    serve_on(sources, settings, commit, lost, listener, stop).await
}

/// Serves on a listener, and on the Unix-domain socket if one is set, until `stop` resolves. Then
/// drains within the grace time.
pub async fn serve(
    settings: Settings,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    let lost = LostLines::default();
    let sources = Sources::default();
    serve_on(sources, settings, "unknown", lost, Some(listener), stop).await
}

async fn serve_on(
    sources: Sources,
    mut settings: Settings,
    commit: &str,
    lost: LostLines,
    listener: Option<TcpListener>,
    stop: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    let memory = memory::allowed();
    sizing::set_limits(&mut settings, memory);
    // Every name begins with the prefix, so an invalid prefix makes every name invalid.
    if let Some(why) = script::keys::refuse(&format!("{}x", settings.store.key_prefix)) {
        return Err(misconfigured("store.key_prefix", &why));
    }
    let admin = bind_admin(&settings)?;
    secret_files::check_settings(&sources).map_err(|why| misconfigured("--config", &why))?;
    let (connections, calls) = (host::Metrics::default(), grpc::Metrics::default());
    let Security { access, tls } =
        Security::read(&settings, memory).map_err(|(key, problem)| misconfigured(key, &problem))?;
    let listeners = listeners(&settings, listener, tls.clone())?;
    let coordinator = start(&settings, &connections).await?;
    let reloaded = Reloaded {
        access: access.clone(),
        tls,
        settings: ReloadedSettings::new(sources, &settings, memory)
            .map_err(|problem| misconfigured("access", &problem))?,
        secrets: ReloadedSecrets::new(&settings, coordinator.session_secrets())
            .map_err(|problem| misconfigured("session.secret_file", &problem))?,
    };
    let probe = StoreProbe::new(coordinator.clone());
    let fleet = fleet_of(&settings, &coordinator, &listeners)?;
    let metrics = metrics(commit, &coordinator, &connections, &calls, &access, &lost);
    let drained = CancellationToken::new();
    let is_shown = admin.is_some() || fleet.own_name().is_some();
    let samples = sampled(is_shown, &metrics, &coordinator, &drained);
    let services = grpc::services(
        &coordinator,
        probe.clone(),
        grpc_config(&settings, &fleet, &samples),
        &access,
        &calls,
    )?;
    let limits = listen_limits(&settings, &access);
    announce(&settings, &listeners)?;
    if let Some(listener) = admin {
        let access = access.at(security::admin_port(&settings));
        let config = admin_config(&settings, &fleet, &samples);
        let admin = Admin::new(coordinator.clone(), probe, access, metrics, config);
        serve_admin(admin, listener, drained.clone().cancelled_owned())?;
    }
    spawn_detached("reload", reloaded.run(drained.clone().cancelled_owned()));
    let server = services.serve(
        listen::accept(listeners, limits, &access, calls.connections()),
        drained.clone().cancelled_owned(),
    );
    tokio::pin!(server);
    spawn_detached("announce", fleet.clone().announce());
    systemd::ready();
    tokio::select! {
        ended = &mut server => ended?,
        () = stop => {
            let grace = settings.server.drain_grace;
            info!(?grace, "draining");
            systemd::stopping();
            let begun = tokio::time::Instant::now();
            drain(&coordinator, &fleet, &drained, &mut server, begun, grace).await?;
        }
    }
    Ok(())
}

fn serve_admin(
    admin: Admin,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let address = listener.local_addr()?;
    info!(%address, "admin port");
    info!("console: http://{address}/");
    let connections_max = rlimit::admin_connections_max();
    spawn_detached(
        "admin",
        admin::serve(admin, listener, connections_max, stop),
    );
    Ok(())
}

/// What the charts of consoles are drawn from, where there are any: here or at other coordinators.
fn sampled(
    is_shown: bool,
    metrics: &admin::Metrics,
    coordinator: &Coordinator,
    stop: &CancellationToken,
) -> Samples {
    let samples = Samples::default();
    if is_shown {
        let metrics = metrics.clone();
        let keep = move || metrics.encoded();
        let keep = samples.clone().keep(keep, coordinator.clone());
        spawn_detached("samples", stop.clone().run_until_cancelled_owned(keep));
    }
    samples
}

/// The metrics of all layers.
fn metrics(
    commit: &str,
    coordinator: &Coordinator,
    connections: &host::Metrics,
    calls: &grpc::Metrics,
    access: &Access,
    lost: &LostLines,
) -> admin::Metrics {
    let mut registry = Registry::default();
    let mut registrar = Registrar::new(&mut registry);
    registrar.add(
        "build",
        "The running version",
        Info::new([
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("commit", commit.to_owned()),
        ]),
    );
    coordinator.register(&mut registrar);
    connections.register(&mut registrar);
    access.register(&mut registrar);
    lost.register(&mut registrar);
    calls.register(&mut registry);
    #[cfg(target_os = "linux")]
    registry.register_collector(Box::new(telemetry::process::ProcessCollector));
    admin::Metrics::new(registry)
}

fn bind_admin(settings: &Settings) -> anyhow::Result<Option<TcpListener>> {
    match settings.admin.listen.0 {
        Some(address) => bind(address, "admin.listen").map(Some),
        None => Ok(None),
    }
}

fn bind(address: SocketAddr, key: &str) -> anyhow::Result<TcpListener> {
    let listener = listen::bind(address);
    listener.with_context(|| format!("cannot listen on {address} ({key})"))
}

fn listeners(
    settings: &Settings,
    listener: Option<TcpListener>,
    tls: Option<Arc<Tls>>,
) -> anyhow::Result<Listeners> {
    let path = &settings.server.uds_path;
    let unix = if path.as_os_str().is_empty() {
        None
    } else {
        let bound = UnixSocket::bind(path, settings.server.uds_mode.0);
        let why = || format!("cannot listen at {} (server.uds_path)", path.display());
        Some(bound.with_context(why)?)
    };
    Ok(Listeners {
        tcp: listener.map(|listener| (listener, tls)),
        unix,
    })
}

/// The other coordinators, if this one has an address for them.
fn fleet_of(
    settings: &Settings,
    coordinator: &Coordinator,
    listeners: &Listeners,
) -> anyhow::Result<Fleet> {
    let config = &settings.fleet;
    if config.address.is_empty() {
        return Ok(Fleet::default());
    }
    let tcp = listeners.tcp.as_ref();
    let port = tcp.map(|(tcp, _)| tcp.local_addr()).transpose()?;
    let has_tls = tcp.is_some_and(|(_, tls)| tls.is_some());
    let files = config.read();
    let files = files.map_err(|(key, problem)| misconfigured(key, &problem))?;
    let config = fleet::Config {
        address: config.url(port.map_or(0, |it| it.port()), has_tls),
        allow_plaintext: settings.auth.allow_plaintext,
        connect: fleet::connect(files.root, files.client, config.server_name.clone()),
    };
    Ok(Fleet::new(coordinator, config))
}

/// Logs the addresses, with a command to try.
fn announce(settings: &Settings, listeners: &Listeners) -> anyhow::Result<()> {
    let Listeners { tcp, unix } = listeners;
    let address = tcp.as_ref().map(|(listener, _)| listener.local_addr());
    let address = address.transpose()?;
    let has_tls = tcp.as_ref().is_some_and(|(_, tls)| tls.is_some());
    info!(
        address = address.map(display),
        path = unix.as_ref().map(|unix| display(unix.path().display())),
        tls = has_tls.then_some(true),
        store = %stores(settings).join(" "),
        "serving"
    );
    if let (Some(address), false, false) = (address, has_tls, settings.auth.takes_tokens()) {
        info!("try: lockkeeper try-acquire my-lock --server http://{address}");
    }
    Ok(())
}

/// Ends waits and notifies sessions while the server still answers. Then stops accepting, and waits
/// for operations in progress.
async fn drain<E: std::error::Error + Send + Sync + 'static>(
    coordinator: &Coordinator,
    fleet: &Fleet,
    drained: &CancellationToken,
    server: &mut (impl Future<Output = Result<(), E>> + Unpin),
    begun: tokio::time::Instant,
    grace: Duration,
) -> anyhow::Result<()> {
    let left = || grace.saturating_sub(begun.elapsed());
    tokio::select! {
        ended = &mut *server => return Ok(ended?),
        _ = join(coordinator.drain(grace / 2), fleet.leave()) => {}
    }
    drained.cancel();
    if tokio::time::timeout(left(), server).await.is_err() {
        warn!("connections are still open after the grace time");
    }
    if !coordinator.stop(left().max(STOP_GRACE_MIN)).await {
        warn!("tasks are still running after the grace time");
    }
    info!("drained");
    Ok(())
}

/// The least time for stopping tasks, also if the grace time is used up.
const STOP_GRACE_MIN: Duration = Duration::from_millis(100);

/// The addresses of the stores, without passwords.
fn stores(settings: &Settings) -> Vec<String> {
    let store = &settings.store;
    match store.quorum.as_slice() {
        [] => vec![store.url.redacted()],
        several => several.iter().map(StoreUrl::redacted).collect(),
    }
}

async fn start(settings: &Settings, metrics: &host::Metrics) -> anyhow::Result<Coordinator> {
    let store = &settings.store;
    let config = coordinator_config(settings);
    if store.quorum.is_empty() {
        let connected = connect(settings, &store.url, store.call_timeout, metrics)?;
        return Ok(Coordinator::start(config, connected));
    }
    let refused = script::Unsupported::REFUSED.map(script::Unsupported::name);
    info!(
        stores = store.quorum.len(),
        refused = refused.join(", "),
        "locks are held on a majority of the stores"
    );
    let mut members = Vec::new();
    for (at, url) in store.quorum.iter().enumerate() {
        let name = format!("store {} ({})", at + 1, url.redacted());
        let connected = connect(settings, url, store.quorum_member_timeout, metrics)
            .with_context(|| format!("store.quorum: {name}"))?;
        members.push((name, connected));
    }
    // A member's time limit is meant for its answers. Connecting may take longer, and the first
    // callers would be told that no store answers.
    let attempts = members.iter().map(|(_, (host, _))| host.first_attempt());
    let _ = tokio::time::timeout(store.connect_timeout, join_all(attempts)).await;
    Ok(Coordinator::start_on_quorum(config, members))
}

fn connect(
    settings: &Settings,
    url: &StoreUrl,
    call_timeout: Duration,
    metrics: &host::Metrics,
) -> anyhow::Result<Connected> {
    let store = &settings.store;
    if url.scheme() == Some("embedded") {
        info!("the embedded store keeps locks in this process only: they end with it");
        return Ok(EmbeddedStore::new(Clock::system()).connect());
    }
    let config = redis_config(settings, url, call_timeout, metrics)?;
    host::redis::connect(&config).map_err(|error| {
        let key = match error {
            ConfigError::Tls(_) => "store.tls",
            ConfigError::Url { .. } if store.quorum.is_empty() => "store.url",
            ConfigError::Url { .. } => "store.quorum",
            ConfigError::NoConnections => "store.connections",
        };
        misconfigured(key, &error)
    })
}

/// What a client of the Redis at this URL is given. Reads the certificates.
pub(crate) fn redis_config(
    settings: &Settings,
    url: &StoreUrl,
    call_timeout: Duration,
    metrics: &host::Metrics,
) -> anyhow::Result<RedisConfig> {
    let store = &settings.store;
    let certificates = store.tls.read();
    let certificates = certificates.map_err(|(key, problem)| misconfigured(key, &problem))?;
    Ok(RedisConfig {
        client_name: store.client_name.clone(),
        url: url.expose().to_owned(),
        call_timeout,
        connect_timeout: store.connect_timeout,
        replica_ack_timeout: store.replica_ack_timeout,
        replica_marker: script::keys::replicated(&store.key_prefix),
        probe_channels: script::keys::probes(&store.key_prefix),
        connections: store.connections,
        ping_interval: store.pubsub_ping_interval,
        tls: TlsCertificates {
            root: certificates.root,
            client: certificates.client,
        },
        scripts: &script::catalog::ALL,
        metrics: metrics.clone(),
    })
}

/// A setting that proves unusable at start.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Misconfigured(String);

fn misconfigured(key: &str, problem: &dyn std::fmt::Display) -> anyhow::Error {
    Misconfigured(format!("{key}: {problem}")).into()
}
