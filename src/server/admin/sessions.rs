//! One session, and its end, as JSON.

use axum::{
    Json,
    extract::{Query, State, rejection::JsonRejection},
};
use lockkeeper_coordinator::{Error, Invalid, Reason, SessionsOf};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Admin,
    failure::Failure,
    guard::Caller,
    json::{listed_session, standing},
};
use crate::session_rights::may_end;

/// The session of a request.
#[derive(Debug, Deserialize)]
pub(super) struct OfDigest {
    digest: String,
}

/// The body of a forced end.
#[derive(Debug, Deserialize)]
pub(super) struct EndSession {
    digest: String,
    reason: String,
    /// The digest again, as the operator typed it.
    confirm: String,
}

pub(super) async fn session(
    State(admin): State<Admin>,
    caller: Caller,
    Query(OfDigest { digest }): Query<OfDigest>,
) -> Result<Json<Value>, Failure> {
    caller.looks(&admin, "Session", "")?;
    let session = admin.coordinator.session(&digest);
    let session = session.ok_or_else(|| Failure::of(&Error::SessionNotFound))?;
    let mut shown = listed_session(&session.seen);
    shown["holdings"] = session.holdings.iter().map(standing).collect();
    shown["waits"] = session.waits.iter().map(standing).collect();
    Ok(Json(shown))
}

pub(super) async fn end_session(
    State(admin): State<Admin>,
    caller: Caller,
    body: Result<Json<EndSession>, JsonRejection>,
) -> Result<Json<Value>, Failure> {
    let Json(request) =
        body.map_err(|error| Failure::new(error.status(), "INVALID", error.body_text()))?;
    let meant = SessionsOf::Digest(request.digest.clone());
    let sessions = admin.coordinator.sessions_of(&meant);
    let may = may_end(&admin.access, caller.identity(), &sessions);
    let asked = caller.asks_if(may, "EndSession", &request.digest, &request.reason)?;
    admin.may_change(&asked)?;
    let end = async {
        let reason = Reason::parse(&request.reason)?;
        if request.confirm != request.digest {
            return Err(Invalid::new("confirm", "is not the digest").into());
        }
        if sessions.is_empty() {
            return Err(Error::SessionNotFound);
        }
        Ok(admin.coordinator.end_sessions(sessions, &reason).await)
    };
    match end.await {
        Ok(ended) => {
            asked.done();
            Ok(Json(json!({
                "sessionCount": ended.sessions,
                "grantCount": ended.grants,
            })))
        }
        Err(error) => {
            asked.failed(&error);
            Err(Failure::of(&error))
        }
    }
}
