//! The driver's session.

use std::{collections::HashMap, sync::Arc};

use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_client::{Client, Session, SessionEvent, SessionState, TlsFiles, Token};
use serde_json::json;
use tokio::sync::{Mutex, mpsc::UnboundedSender};

use crate::{
    guards::{Held, watch},
    wire::{Command, Failure, print},
};

/// What is connected, and what is held.
pub(crate) struct State {
    commands: UnboundedSender<Command>,
    connected: Mutex<Option<(Client, Session)>>,
    guards: Mutex<HashMap<String, Arc<Held>>>,
    idle: Mutex<Vec<Session>>,
}

// === impl State ===

impl State {
    /// Handlers of losses send their commands here.
    pub(crate) fn new(commands: UnboundedSender<Command>) -> Self {
        Self {
            commands,
            connected: Mutex::default(),
            guards: Mutex::default(),
            idle: Mutex::default(),
        }
    }

    pub(crate) async fn connect(&self, command: Command) -> Result<(), Failure> {
        let mut builder = Client::builder();
        for endpoint in &command.endpoints {
            builder = builder.endpoint(endpoint)?;
        }
        builder = builder.tls(TlsFiles {
            ca: command.ca_file.as_ref().map(Into::into),
            certificate: command.cert_file.as_ref().map(Into::into),
            key: command.key_file.as_ref().map(Into::into),
            server_name: command.server_name.clone(),
        });
        let token = command.token.clone().map(Token::Text);
        let token = token.or_else(|| command.token_file.clone().map(|it| Token::File(it.into())));
        if let Some(token) = token {
            builder = builder.token(token);
        }
        let client = builder.build()?;
        let mut session = client
            .session()
            .client_name(&command.client_name)
            .release_on_disconnect(command.release_on_disconnect);
        if let Some(lease) = command.lease() {
            session = session.lease(lease);
        }
        let session = session.open().await?;
        report_states(&session);
        *self.connected.lock().await = Some((client, session));
        Ok(())
    }

    /// Opens sessions of clients of their own, which stay idle.
    pub(crate) async fn open_idle(&self, command: &Command) -> Result<(), Failure> {
        for _ in 0..command.count {
            let client = Client::connect(&command.endpoints[0]).await?;
            let session = client.session().open().await?;
            self.idle.lock().await.push(session);
        }
        Ok(())
    }

    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        let connected = self.connected.lock().await;
        let client = connected.as_ref().map(|(client, _)| client.clone());
        client.ok_or_else(|| Failure::of_kind("session_ended"))
    }

    /// The session, or another one if that has ended.
    pub(crate) async fn session(&self) -> Result<Session, Failure> {
        let mut connected = self.connected.lock().await;
        let Some((client, session)) = &mut *connected else {
            return Err(Failure::of_kind("session_ended"));
        };
        if *session.state().borrow() == SessionState::Ended {
            *session = client.session().open().await?;
        }
        Ok(session.clone())
    }

    pub(crate) async fn keep(&self, acquire: Command, held: Held) {
        let held = Arc::new(held);
        let guard = acquire.guard.clone();
        watch(&held, acquire, self.commands.clone());
        self.guards.lock().await.insert(guard, held);
    }

    pub(crate) async fn guard(&self, name: &str) -> Result<Arc<Held>, Failure> {
        let guard = self.guards.lock().await.get(name).cloned();
        guard.ok_or_else(|| Failure::of_kind("misconfigured"))
    }

    /// Takes a guard out, as it can be released only once.
    pub(crate) async fn take(&self, name: &str) -> Result<Held, Failure> {
        let guard = self.guards.lock().await.remove(name);
        let guard = guard.and_then(Arc::into_inner);
        guard.ok_or_else(|| Failure::of_kind("misconfigured"))
    }

    pub(crate) async fn close(&self) {
        let connected = self.connected.lock().await.take();
        if let Some((_, session)) = connected {
            let _ = session.close().await;
        }
    }
}

/// Prints the states of a session until it has ended.
fn report_states(session: &Session) {
    let (mut states, mut events) = (session.state(), session.events());
    spawn_detached("states", async move {
        let mut cause = String::new();
        while let Some(event) = events.next().await {
            if let SessionEvent::YieldRequested(it) = &event {
                print(&json!({
                    "event": "yield_requested", "name": it.name, "by": it.by,
                    "reason": it.reason, "preempts": it.preempts,
                }));
            }
            if let SessionEvent::Broken { cause: why } | SessionEvent::Ended { cause: why } = event
            {
                cause = why;
            }
            if !states.has_changed().unwrap_or(true) {
                continue;
            }
            let state = match *states.borrow_and_update() {
                SessionState::Connected => "connected",
                SessionState::AtRisk => "at_risk",
                SessionState::Resuming => "resuming",
                _ => "ended",
            };
            print(&json!({ "event": "session", "state": state, "cause": cause }));
        }
    });
}
