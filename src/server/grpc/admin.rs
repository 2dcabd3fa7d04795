//! `LockAdminService`. Every call is audited, also a denied one.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{FutureExt as _, stream::BoxStream};
use lockkeeper_access::{Access, Audited, Identity, Right};
use lockkeeper_api::pb::lock_admin_service_server::LockAdminServiceServer;
use lockkeeper_coordinator::{Coordinator, Error, Limit, LockName, Reason, SessionsOf};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

use crate::{
    fleet::{ANSWERED_BY, Fleet, Forwarded, in_order, named, sessions_ended},
    pages::{Local, Page},
    probe::StoreProbe,
    repeats::Repeats,
    session_rights::may_end,
};

use super::{
    Config,
    audit::Caller,
    call::Calls,
    convert::{self, count, whole_millis},
    convert_admin::{contended_name, listed_lock, listed_session, sessions_of, watched},
    known_here::known_here,
    pb,
    status::{not_admin, not_admin_of_sessions, status},
    viewer::Viewer,
};

/// Serves `LockAdminService`.
#[derive(Clone, Debug)]
pub(super) struct LockAdminService {
    coordinator: Coordinator,
    access: Access,
    local: Local,
    fleet: Fleet,
    repeats: Arc<Repeats>,
}

/// The events of one watcher.
pub(super) struct WatchStream(BoxStream<'static, Result<pb::WatchResponse, Status>>);

/// The service on the coordinator of these calls.
pub(super) fn service(
    calls: &Calls,
    probe: &StoreProbe,
    config: &Config,
) -> LockAdminServiceServer<LockAdminService> {
    LockAdminServiceServer::new(LockAdminService {
        coordinator: calls.coordinator.clone(),
        access: calls.access.clone(),
        local: Local {
            coordinator: calls.coordinator.clone(),
            probe: probe.clone(),
            samples: config.samples.clone(),
        },
        fleet: config.fleet.clone(),
        repeats: Arc::default(),
    })
}

// === impl LockAdminService ===

impl LockAdminService {
    fn viewer(&self, caller: &Caller) -> Viewer {
        Viewer::new(&self.coordinator, &self.access, &caller.identity)
    }

    /// Refuses a caller without the admin right to the name, or to every name with this prefix.
    fn admit(&self, asked: &Audited<'_>) -> Result<(), Status> {
        if self.access.allows(asked.identity, Right::Admin, asked.name) {
            return Ok(());
        }
        asked.denied();
        Err(not_admin(asked.name()))
    }

    /// An answer that says whose it is, for a coordinator that asked.
    fn answer<T>(&self, message: T) -> Response<T> {
        let mut answer = Response::new(message);
        if let Ok(id) = self.coordinator.id().parse() {
            answer.metadata_mut().insert(ANSWERED_BY, id);
        }
        answer
    }

    /// The same of an error that is an answer, too.
    fn mark(&self, mut status: Status) -> Status {
        if let Ok(id) = self.coordinator.id().parse() {
            status.metadata_mut().insert(ANSWERED_BY, id);
        }
        status
    }

    async fn summary(&self) -> pb::CoordinatorSummary {
        let (load, own_name) = (self.coordinator.load(), self.fleet.own_name());
        let not_ready = match self.local.probe.is_ready().await {
            _ if self.coordinator.is_draining() => "it drains".to_owned(),
            Ok(()) => String::new(),
            Err(why) => why,
        };
        pb::CoordinatorSummary {
            coordinator: own_name.unwrap_or_else(|| self.coordinator.id().to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            up_for: Some(whole_millis(self.coordinator.up_for())),
            not_ready_reason: not_ready,
            session_count: count(load.sessions),
            waiter_count: count(load.waiters),
        }
    }

    /// Adds the sessions of the other coordinators to a page of those here.
    async fn add_sessions(
        &self,
        forwarded: &Forwarded,
        request: &pb::ListSessionsRequest,
        page: &mut pb::ListSessionsResponse,
    ) {
        let others = self
            .fleet
            .sessions(forwarded, request.page_size, &request.page_token);
        let others = others.await;
        page.unasked = others.unasked;
        let mut next = vec![std::mem::take(&mut page.next_page_token)];
        for (_, other) in others.answers {
            page.session_count = page.session_count.saturating_add(other.session_count);
            page.sessions.extend(other.sessions);
            next.push(other.next_page_token);
        }
        page.next_page_token = in_order(&mut page.sessions, |it| it.session_digest.clone(), next);
    }

    /// Resolves when the caller loses the admin right to names with this prefix.
    fn refused(
        &self,
        identity: Identity,
        prefix: String,
    ) -> impl Future<Output = Status> + Send + 'static {
        let access = self.access.clone();
        async move {
            let look = || {
                let is_allowed = access.allows(&identity, Right::Admin, &prefix);
                is_allowed.then_some(None).ok_or_else(|| not_admin(&prefix))
            };
            access.until_refused(look).await
        }
    }
}

/// Audits the outcome of a call.
fn audited<T>(asked: &Audited<'_>, outcome: Result<T, Error>) -> Result<T, Status> {
    match outcome {
        Ok(outcome) => {
            asked.done();
            Ok(outcome)
        }
        Err(error) => {
            asked.failed(&error);
            Err(status(&error))
        }
    }
}

#[tonic::async_trait]
impl pb::lock_admin_service_server::LockAdminService for LockAdminService {
    type WatchStream = WatchStream;

    async fn list_locks(
        &self,
        request: Request<pb::ListLocksRequest>,
    ) -> Result<Response<pb::ListLocksResponse>, Status> {
        let caller = Caller::of(&request);
        let forwarded = caller.forwarded(&request);
        let request = request.into_inner();
        let asked = caller.asks("ListLocks", &request.prefix, "");
        self.admit(&asked)?;
        if request.waited_for_here {
            asked.done();
            let viewer = self.viewer(&caller);
            return Ok(self.answer(known_here(&self.coordinator, &request, &viewer)));
        }
        let page = self.coordinator.list_locks(
            &request.prefix,
            request.page_size as usize,
            &request.page_token,
        );
        let mut page = audited(&asked, page.await)?;
        let unasked = if request.fleet {
            let complete = self
                .fleet
                .complete(&forwarded, &request.prefix, &mut page.locks);
            complete.await
        } else {
            Vec::new()
        };
        let viewer = self.viewer(&caller);
        let locks = page.locks.into_iter();
        let answer = pb::ListLocksResponse {
            locks: locks.map(|seen| listed_lock(seen, &viewer)).collect(),
            next_page_token: page.next.unwrap_or_default(),
            unasked,
        };
        Ok(self.answer(answer))
    }

    async fn list_coordinators(
        &self,
        request: Request<pb::ListCoordinatorsRequest>,
    ) -> Result<Response<pb::ListCoordinatorsResponse>, Status> {
        let caller = Caller::of(&request);
        let forwarded = caller.forwarded(&request);
        let asked = caller.asks("ListCoordinators", "", "");
        self.admit(&asked)?;
        asked.done();
        let mut answer = pb::ListCoordinatorsResponse {
            coordinators: vec![self.summary().await],
            unasked: Vec::new(),
        };
        if request.get_ref().fleet {
            let others = self.fleet.coordinators(&forwarded).await;
            let summaries = others.answers.into_iter().map(|(_, summary)| summary);
            answer.coordinators.extend(summaries);
            answer.unasked = others.unasked;
        }
        Ok(self.answer(answer))
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        let caller = Caller::of(&request);
        let forwarded = caller.forwarded(&request);
        let request = request.into_inner();
        let asked = caller.asks("ListSessions", "", "");
        self.admit(&asked)?;
        let page = self
            .coordinator
            .list_sessions(request.page_size as usize, &request.page_token);
        asked.done();
        let mut answer = pb::ListSessionsResponse {
            sessions: page.sessions.into_iter().map(listed_session).collect(),
            next_page_token: page.next.unwrap_or_default(),
            session_count: count(page.count),
            unasked: Vec::new(),
        };
        if let (true, Some(own)) = (request.fleet, self.fleet.own_name()) {
            for session in &mut answer.sessions {
                session.coordinator.clone_from(&own);
            }
            self.add_sessions(&forwarded, &request, &mut answer).await;
        }
        Ok(self.answer(answer))
    }

    async fn force_release(
        &self,
        request: Request<pb::ForceReleaseRequest>,
    ) -> Result<Response<pb::ForceReleaseResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let asked = caller.asks("ForceRelease", &request.name, &request.reason);
        self.admit(&asked)?;
        let release = async {
            let name = LockName::parse(&request.name, self.coordinator.limits())?;
            let reason = Reason::parse(&request.reason)?;
            let grace = convert::grace_period(request.grace_period, self.coordinator.limits())?;
            self.coordinator.force_release(&name, &reason, grace).await
        };
        let released = audited(&asked, release.await)?;
        let viewer = self.viewer(&caller);
        Ok(Response::new(pb::ForceReleaseResponse {
            released: released.holder_count > 0,
            holder_count: count(released.holder_count),
            closed_for: convert::remaining(released.closed_until),
            holders: released
                .holders
                .into_iter()
                .map(|seen| convert::holder(seen, &viewer))
                .collect(),
        }))
    }

    async fn list_contention(
        &self,
        request: Request<pb::ListContentionRequest>,
    ) -> Result<Response<pb::ListContentionResponse>, Status> {
        let caller = Caller::of(&request);
        let prefix = request.into_inner().prefix;
        let asked = caller.asks("ListContention", &prefix, "");
        self.admit(&asked)?;
        asked.done();
        let waiting = self.coordinator.contended();
        let names = self.coordinator.most_contended().into_iter();
        let names = names.filter(|seen| seen.name.public().starts_with(&prefix));
        let names = names.map(|seen| contended_name(seen, &waiting));
        Ok(Response::new(pb::ListContentionResponse {
            names: names.collect(),
        }))
    }

    async fn end_session(
        &self,
        request: Request<pb::EndSessionRequest>,
    ) -> Result<Response<pb::EndSessionResponse>, Status> {
        let caller = Caller::of(&request);
        let forwarded = caller.forwarded(&request);
        let request = request.into_inner();
        let subject = [request.session_digest.as_str(), &request.identity].concat();
        let asked = caller.asks("EndSession", &subject, &request.reason);
        let meant = audited(&asked, sessions_of(&request).map_err(Error::from))?;
        let sessions = self.coordinator.sessions_of(&meant);
        if !may_end(&self.access, &caller.identity, &sessions) {
            asked.denied();
            return Err(not_admin_of_sessions());
        }
        let end = async {
            let reason = Reason::parse(&request.reason)?;
            let own = self.coordinator.end_sessions(sessions, &reason);
            let ended = if request.fleet {
                self.fleet.end_sessions(&forwarded, &request, own).await
            } else {
                sessions_ended(own.await)
            };
            let is_none = ended.session_count == 0 && ended.unasked.is_empty();
            if is_none && matches!(meant, SessionsOf::Digest(_)) {
                return Err(Error::SessionNotFound);
            }
            Ok(ended)
        };
        let ended = audited(&asked, end.await).map_err(|status| self.mark(status))?;
        Ok(self.answer(ended))
    }

    async fn read_page(
        &self,
        request: Request<pb::ReadPageRequest>,
    ) -> Result<Response<pb::ReadPageResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let page = Page::parse(&request.page, &request.query);
        let asked = caller.asks("ReadPage", "", "");
        let page = page.or_else(|error| {
            self.admit(&asked)?;
            audited(&asked, Err(error.into()))
        })?;
        let (operation, name) = page.asks();
        let asked = caller.asks(operation, name, "");
        self.admit(&asked)?;
        let read = page.read(&self.local).await;
        let page = match read {
            // Consoles repeat it.
            Ok(page) if !self.repeats.is_first(&asked) => page,
            read => audited(&asked, read)?,
        };
        Ok(self.answer(pb::ReadPageResponse {
            json: page.to_string().into(),
        }))
    }

    async fn watch(
        &self,
        request: Request<pb::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let caller = Caller::of(&request);
        let forwarded = caller.forwarded(&request);
        let request = request.into_inner();
        let asked = caller.asks("Watch", &request.prefix, "");
        self.admit(&asked)?;
        let place = self.access.watch(&caller.identity);
        let place = place.ok_or(Error::LimitReached(Limit::Watchers));
        let watcher = place.and_then(|place| {
            let watcher = self.coordinator.watch(request.prefix.clone())?;
            Ok((watcher, place))
        });
        let watcher = audited(&asked, watcher)?;
        let (coordinator, viewer) = (self.coordinator.clone(), self.viewer(&caller));
        let own = request.fleet.then(|| self.fleet.own_name()).flatten();
        let others = own.map(|own| (own, self.fleet.watch(forwarded, request.prefix.clone())));
        let refused = self
            .refused(caller.identity.clone(), request.prefix)
            .boxed();
        let items = futures::stream::unfold(Some((watcher, refused)), |state| async {
            let ((mut watcher, place), mut refused) = state?;
            tokio::select! {
                biased;
                status = &mut refused => Some((Err(status), None)),
                item = watcher.next() => match item {
                    Ok(item) => Some((Ok(item), Some(((watcher, place), refused)))),
                    Err(error) => Some((Err(status(&error)), None)),
                },
            }
        });
        let items = items.map(move |item| Ok(watched(&coordinator, &viewer, item?)));
        let items: BoxStream<'static, _> = match others {
            None => Box::pin(items),
            Some((own, others)) => {
                let items = items.map(move |item| Ok(named(item?, &own)));
                Box::pin(items.merge(others.map(Ok)))
            }
        };
        Ok(self.answer(WatchStream(items)))
    }
}

// === impl WatchStream ===

impl Stream for WatchStream {
    type Item = Result<pb::WatchResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}
