//! The other coordinators, and a question to all of them at once.

use std::{collections::HashMap, fmt, sync::Arc};

use futures::future::join_all;
use lockkeeper_api::pb::{self, lock_admin_service_client::LockAdminServiceClient};
use lockkeeper_coordinator::{ANNOUNCE_INTERVAL, Announced, Coordinator, Error, Introduction};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Response, Status, transport::Channel};

use super::{
    connect::{Connect, TIMEOUT},
    forwarded::Forwarded,
};

/// The header of answers with the id of the coordinator that gives them.
pub(crate) const ANSWERED_BY: &str = "lockkeeper-coordinator";

/// A client of another coordinator.
pub(super) type Client = LockAdminServiceClient<Channel>;

/// How this coordinator is reached, and how it reaches others.
#[derive(Clone)]
pub struct Config {
    /// Where others reach this coordinator.
    pub address: String,
    /// Whether tokens are sent to other machines without TLS.
    pub allow_plaintext: bool,
    /// Makes connections.
    pub connect: Arc<Connect>,
}

/// The other coordinators of the store. By default there are none. Cheap to clone.
#[derive(Clone, Default)]
pub struct Fleet(Option<Arc<Inner>>);

struct Inner {
    coordinator: Coordinator,
    own: Introduction,
    config: Config,
    left: CancellationToken,
    /// The connections to coordinators that were asked, by their addresses.
    channels: Mutex<HashMap<String, Channel>>,
    /// When coordinators were asked that did not answer, by their ids. They are spared for a while,
    /// so that a list of many pages does not wait for them with each page.
    silent: Mutex<HashMap<String, Instant>>,
}

/// What the other coordinators have answered.
#[derive(Debug, Default)]
pub(crate) struct Asked<T> {
    /// The answers, each with what its coordinator is called.
    pub(crate) answers: Vec<(String, T)>,
    /// Those that did not answer.
    pub(crate) unasked: Vec<pb::UnaskedCoordinator>,
}

// === impl Fleet ===

impl Fleet {
    /// The coordinators that share a store and a session secret with this one.
    pub fn new(coordinator: &Coordinator, config: Config) -> Self {
        // Their consoles show it.
        coordinator.keep_history();
        let own = Introduction {
            address: config.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        Self(Some(Arc::new(Inner {
            coordinator: coordinator.clone(),
            own,
            config,
            left: CancellationToken::new(),
            channels: Mutex::default(),
            silent: Mutex::default(),
        })))
    }

    /// What others call this coordinator: its address. None if there are no others.
    pub(crate) fn own_name(&self) -> Option<String> {
        self.0.as_ref().map(|inner| inner.own.address.clone())
    }

    /// Announces this coordinator until it leaves.
    pub async fn announce(self) {
        let Some(inner) = &self.0 else {
            return;
        };
        let mut interval = tokio::time::interval(ANNOUNCE_INTERVAL);
        let mut was_announced = true;
        loop {
            let tick = inner.left.run_until_cancelled(interval.tick());
            if tick.await.is_none() {
                return;
            }
            match inner.coordinator.announce(&inner.own).await {
                Ok(others) if others.is_announced => was_announced = true,
                Ok(_) if was_announced => {
                    was_announced = false;
                    tracing::warn!("too many coordinators: this one is not announced to them");
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "not announced to other coordinators"),
            }
        }
    }

    /// Notifies the others that this coordinator ends, and announces it no more.
    pub(crate) async fn leave(&self) {
        if let Some(inner) = &self.0 {
            inner.left.cancel();
            inner.coordinator.leave().await;
        }
    }

    /// Asks all other coordinators at once, and waits at most 2 s for them.
    pub(crate) async fn ask<T, F>(
        &self,
        forwarded: &Forwarded,
        call: impl Fn(Client) -> F + Sync,
    ) -> Asked<T>
    where
        T: Send,
        F: Future<Output = Result<Response<T>, Status>> + Send,
    {
        let mut asked = Asked {
            answers: Vec::new(),
            unasked: Vec::new(),
        };
        let others = match self.others().await {
            Ok(others) => others,
            Err(error) => {
                asked.unasked.push(unknown(&error));
                return asked;
            }
        };
        let (call, others) = (&call, &others);
        let answers = others.iter().map(|other| async move {
            let client = self.client(other, forwarded)?;
            if self.is_silent(other) {
                return Err(too_slow());
            }
            let Ok(answer) = timeout(TIMEOUT, call(client)).await else {
                self.falls_silent(other);
                return Err(too_slow());
            };
            of_coordinator(other, answer)
        });
        for (other, answer) in others.iter().zip(join_all(answers).await) {
            match answer {
                Ok(answer) => asked.answers.push((name(other), answer.into_inner())),
                Err(reason) => asked.unasked.push(unasked(other, reason)),
            }
        }
        asked
    }

    /// The others as the store knows them now.
    pub(super) async fn others(&self) -> Result<Vec<Announced>, Error> {
        let Some(inner) = &self.0 else {
            return Ok(Vec::new());
        };
        let others = inner.coordinator.announce(&inner.own).await?.others;
        let addresses = || others.iter().filter_map(|it| it.said.as_ref().ok());
        let is_known = |address: &str| addresses().any(|it| it.address == address);
        inner.channels.lock().retain(|address, _| is_known(address));
        Ok(others)
    }

    fn is_silent(&self, other: &Announced) -> bool {
        let silent = self.0.as_ref().map(|inner| inner.silent.lock());
        let since = silent.and_then(|silent| silent.get(&other.id).copied());
        since.is_some_and(|since| since.elapsed() < ANNOUNCE_INTERVAL)
    }

    fn falls_silent(&self, other: &Announced) {
        if let Some(inner) = &self.0 {
            let mut silent = inner.silent.lock();
            silent.retain(|_, since| since.elapsed() < ANNOUNCE_INTERVAL);
            silent.insert(other.id.clone(), Instant::now());
        }
    }

    /// A client of another coordinator; why it must or can not be asked, if so.
    pub(super) fn client(
        &self,
        other: &Announced,
        forwarded: &Forwarded,
    ) -> Result<Client, String> {
        let (Some(inner), Introduction { address, .. }) = (&self.0, other.said.clone()?) else {
            return Err("there is no fleet".to_owned());
        };
        if let Some(why) = forwarded.refuse(&address, inner.config.allow_plaintext) {
            return Err(why.to_owned());
        }
        let mut channels = inner.channels.lock();
        let channel = match channels.get(&address) {
            Some(channel) => channel.clone(),
            None => (inner.config.connect)(&address)?,
        };
        channels.insert(address, channel.clone());
        Ok(LockAdminServiceClient::new(channel))
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = self.0.as_ref().map(|inner| &inner.own);
        f.debug_tuple("Fleet").field(&own).finish()
    }
}

/// What a coordinator is called: its address, or its id if that is not known.
pub(super) fn name(other: &Announced) -> String {
    let address = other.said.as_ref().map(|said| said.address.clone());
    address.unwrap_or_else(|_| other.id.clone())
}

pub(super) fn unasked(other: &Announced, reason: String) -> pb::UnaskedCoordinator {
    let version = other.said.as_ref().map(|said| said.version.clone());
    pb::UnaskedCoordinator {
        coordinator: name(other),
        version: version.unwrap_or_default(),
        reason,
    }
}

pub(super) fn unknown(error: &Error) -> pb::UnaskedCoordinator {
    pb::UnaskedCoordinator {
        reason: format!("the other coordinators are not known: {error}"),
        ..pb::UnaskedCoordinator::default()
    }
}

pub(super) fn too_slow() -> String {
    format!("it does not answer within {} s", TIMEOUT.as_secs())
}

/// An answer, if it is of this coordinator and not of another one at its address.
pub(super) fn of_coordinator<T>(
    other: &Announced,
    answer: Result<Response<T>, Status>,
) -> Result<Response<T>, String> {
    let answer = answer.map_err(|status| why(&status))?;
    match answer.metadata().get(ANSWERED_BY) {
        Some(id) if id.as_bytes() == other.id.as_bytes() => Ok(answer),
        _ => Err("another coordinator answers at its address".to_owned()),
    }
}

/// Why a call failed. The last cause says what happened on the way.
pub(super) fn why(status: &Status) -> String {
    let source = std::error::Error::source(status);
    let causes = std::iter::successors(source, |error| (*error).source());
    match (causes.last(), status.code()) {
        (Some(cause), _) => format!("it cannot be reached: {cause}"),
        (None, Code::Unauthenticated | Code::PermissionDenied) => {
            format!("it refuses: {}", status.message())
        }
        (None, Code::Unimplemented) => "its version does not answer this".to_owned(),
        (None, _) => status.message().to_owned(),
    }
}
