//! `LockAdminService`. Every call is audited, also a denied one.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures::{FutureExt as _, stream::BoxStream};
use lockkeeper_access::{Access, Audited, Identity, Right};
use lockkeeper_coordinator::{Coordinator, Error, Limit, LockName, Reason, SessionsOf};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

use crate::session_rights::may_end;

use super::{
    audit::Caller,
    convert,
    convert_admin::{contended_name, listed_lock, listed_session, sessions_of, watched},
    pb,
    status::{not_admin, not_admin_of_sessions, status},
    viewer::Viewer,
};

/// Serves `LockAdminService`.
#[derive(Clone, Debug)]
pub(super) struct LockAdminService {
    coordinator: Coordinator,
    access: Access,
}

/// The events of one watcher.
pub(super) struct WatchStream(BoxStream<'static, Result<pb::WatchResponse, Status>>);

// === impl LockAdminService ===

impl LockAdminService {
    pub(super) fn new(coordinator: Coordinator, access: Access) -> Self {
        Self {
            coordinator,
            access,
        }
    }

    fn viewer(&self, caller: &Caller) -> Viewer {
        Viewer::new(&self.coordinator, &self.access, &caller.identity)
    }

    /// Refuses a caller without the admin right to the name, or to every name with this prefix.
    fn admit(&self, asked: &Audited<'_>) -> Result<(), Status> {
        if self.access.allows(asked.identity, Right::Admin, asked.name) {
            return Ok(());
        }
        asked.denied();
        Err(not_admin(asked.name))
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
        let request = request.into_inner();
        let asked = caller.asks("ListLocks", &request.prefix, "");
        self.admit(&asked)?;
        let page = self.coordinator.list_locks(
            &request.prefix,
            request.page_size as usize,
            &request.page_token,
        );
        let page = audited(&asked, page.await)?;
        let viewer = self.viewer(&caller);
        Ok(Response::new(pb::ListLocksResponse {
            locks: page
                .locks
                .into_iter()
                .map(|seen| listed_lock(seen, &viewer))
                .collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let asked = caller.asks("ListSessions", "", "");
        self.admit(&asked)?;
        let page = self
            .coordinator
            .list_sessions(request.page_size as usize, &request.page_token);
        asked.done();
        Ok(Response::new(pb::ListSessionsResponse {
            sessions: page.sessions.into_iter().map(listed_session).collect(),
            next_page_token: page.next.unwrap_or_default(),
            session_count: u32::try_from(page.count).unwrap_or(u32::MAX),
        }))
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
            holder_count: u32::try_from(released.holder_count).unwrap_or(u32::MAX),
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
            if sessions.is_empty() && matches!(meant, SessionsOf::Digest(_)) {
                return Err(Error::SessionNotFound);
            }
            Ok(self.coordinator.end_sessions(sessions, &reason).await)
        };
        let ended = audited(&asked, end.await)?;
        Ok(Response::new(pb::EndSessionResponse {
            session_count: u32::try_from(ended.sessions).unwrap_or(u32::MAX),
            grant_count: u32::try_from(ended.grants).unwrap_or(u32::MAX),
        }))
    }

    async fn watch(
        &self,
        request: Request<pb::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let caller = Caller::of(&request);
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
        Ok(Response::new(WatchStream(Box::pin(items))))
    }
}

// === impl WatchStream ===

impl Stream for WatchStream {
    type Item = Result<pb::WatchResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}
