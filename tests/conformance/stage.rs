//! What a scenario is played on: a driver, and scripted coordinators, which accept sessions and
//! leave everything else to the scenario.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail};
use lockkeeper_api::pb::{
    AcquireRequest, Grant, ResumeSession, election_service_server::ElectionServiceServer,
    lock_service_server::LockServiceServer,
};
use lockkeeper_base::tasks::spawn_detached;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc, time::timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::{Server, ServerTlsConfig};

use crate::{
    driver_process::{Driver, PATIENCE},
    feed::Called,
    ledger::Ledger,
    messages::{LEASE, TOKEN},
    service::Service,
    stream::Stream,
};

/// A driver and two scripted coordinators.
pub(crate) struct Stage {
    pub(crate) driver: Driver,
    pub(crate) coordinators: Vec<Scripted>,
    callers: Callers,
    calls: mpsc::UnboundedReceiver<Called>,
}

/// What the coordinators of a scenario share.
struct Callers {
    called: mpsc::UnboundedSender<Called>,
    ledger: Arc<Ledger>,
}

/// A scripted coordinator. It stops with this value.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    streams: mpsc::UnboundedReceiver<Stream>,
    _stop: DropGuard,
}

// === impl Stage ===

impl Stage {
    /// Starts two coordinators and the driver.
    pub(crate) async fn new(driver: Driver) -> Result<Self> {
        let (called, calls) = mpsc::unbounded_channel();
        let ledger = Arc::default();
        let callers = Callers { called, ledger };
        Ok(Self {
            driver,
            coordinators: vec![
                Scripted::start(&callers, None).await?,
                Scripted::start(&callers, None).await?,
            ],
            callers,
            calls,
        })
    }

    /// Adds a coordinator with TLS and returns its number.
    pub(crate) async fn add_tls(&mut self, tls: ServerTlsConfig) -> Result<usize> {
        let coordinator = Scripted::start(&self.callers, Some(tls)).await?;
        self.coordinators.push(coordinator);
        Ok(self.coordinators.len() - 1)
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        let urls = self.coordinators.iter().map(Scripted::url);
        urls.collect()
    }

    /// The command to connect to all coordinators.
    pub(crate) fn connect_command(&self) -> Value {
        json!({
            "do": "connect",
            "endpoints": self.endpoints(),
            "lease_ms": LEASE.as_millis(),
            "client_name": "conformance",
        })
    }

    /// Connects the driver to the first coordinator.
    pub(crate) async fn connect(&mut self) -> Result<Stream> {
        self.connect_with(LEASE).await
    }

    /// The same, with another lease.
    pub(crate) async fn connect_with(&mut self, lease: Duration) -> Result<Stream> {
        let mut command = self.connect_command();
        command["lease_ms"] = json!(lease.as_millis());
        let connecting = self.driver.send(command).await?;
        let mut stream = self.accept(0).await?;
        stream.expect_open().await?;
        stream.opened_for(lease, Vec::new());
        self.driver.ok(connecting).await?;
        Ok(stream)
    }

    /// The next stream at a coordinator.
    pub(crate) async fn accept(&mut self, coordinator: usize) -> Result<Stream> {
        let streams = &mut self.coordinators[coordinator].streams;
        let accepted = timeout(PATIENCE, streams.recv()).await;
        let accepted = accepted.map_err(|_| anyhow!("nobody comes to {coordinator}"))?;
        accepted.context("the coordinator is stopped")
    }

    /// The next stream at any coordinator.
    pub(crate) async fn accept_any(&mut self) -> Result<Stream> {
        let [first, second, ..] = &mut self.coordinators[..] else {
            bail!("there are two coordinators");
        };
        let accepted = timeout(PATIENCE, async {
            tokio::select! {
                stream = first.streams.recv() => stream,
                stream = second.streams.recv() => stream,
            }
        });
        let accepted = accepted.await.map_err(|_| anyhow!("nobody comes"))?;
        accepted.context("the coordinator is stopped")
    }

    /// Accepts the next stream, which has to ask for the session to be resumed.
    pub(crate) async fn resuming(&mut self, coordinator: usize) -> Result<(Stream, ResumeSession)> {
        let mut stream = self.accept(coordinator).await?;
        let resume = stream.expect_resume().await?;
        Ok((stream, resume))
    }

    /// Resumes the session on the next stream, with all that is held.
    pub(crate) async fn resumed(&mut self, coordinator: usize) -> Result<(Stream, ResumeSession)> {
        let (stream, resume) = self.resuming(coordinator).await?;
        stream.opened_with(resume.grants.clone());
        Ok((stream, resume))
    }

    /// The next call that is answered by a stream, at any coordinator.
    pub(crate) async fn call(&mut self, what: &str) -> Result<Called> {
        let called = timeout(PATIENCE, self.calls.recv()).await;
        let called = called.map_err(|_| anyhow!("{what} does not come"))?;
        called.context("the coordinators are stopped")
    }

    /// Whether a client has opened a stream that no scenario has accepted.
    pub(crate) fn has_come(&mut self, coordinator: usize) -> bool {
        self.coordinators[coordinator].try_accept().is_some()
    }

    /// Makes the driver acquire a lock: the command's id, the operation's, and the request.
    pub(crate) async fn acquiring(
        &mut self,
        stream: &mut Stream,
        command: Value,
    ) -> Result<(u64, u64, AcquireRequest)> {
        let id = self.driver.send(command).await?;
        let (op_id, request) = stream.expect_acquire().await?;
        Ok((id, op_id, request))
    }

    /// Makes the driver acquire a lock, and grants it.
    pub(crate) async fn lock(
        &mut self,
        stream: &mut Stream,
        name: &str,
        guard: &str,
    ) -> Result<Grant> {
        let command = json!({ "do": "acquire", "name": name, "guard": guard });
        let (id, op_id, request) = self.acquiring(stream, command).await?;
        let grant = stream.grant(op_id, &request, TOKEN);
        self.driver.ok(id).await?;
        Ok(grant)
    }

    /// Connects the driver to the first coordinator, and grants it a lock there.
    pub(crate) async fn holding(&mut self, name: &str, guard: &str) -> Result<(Stream, Grant)> {
        let mut stream = self.connect().await?;
        let grant = self.lock(&mut stream, name, guard).await?;
        Ok((stream, grant))
    }

    /// What clients did that no client may ever do.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.callers.ledger.problems.lock().clone()
    }
}

// === impl Scripted ===

impl Scripted {
    async fn start(callers: &Callers, tls: Option<ServerTlsConfig>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (accepted, streams) = mpsc::unbounded_channel();
        let Callers { called, ledger } = callers;
        let service = Service::new(accepted, called.clone(), Arc::clone(ledger));
        let service = Arc::new(service);
        let stop = CancellationToken::new();
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls)?;
        }
        let server = server
            .add_service(LockServiceServer::from_arc(Arc::clone(&service)))
            .add_service(ElectionServiceServer::from_arc(service))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let stopped = stop.clone();
        spawn_detached("scripted", async move {
            tokio::select! {
                _ = server => {}
                () = stopped.cancelled() => {}
            }
        });
        Ok(Self {
            address,
            streams,
            _stop: stop.drop_guard(),
        })
    }

    /// The next stream, if there is one already.
    pub(crate) fn try_accept(&mut self) -> Option<Stream> {
        self.streams.try_recv().ok()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}
