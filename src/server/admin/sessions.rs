//! One session, and its end, as JSON.

use axum::{
    Json,
    extract::{State, rejection::JsonRejection},
};
use lockkeeper_api::pb;
use lockkeeper_coordinator::{Error, Invalid, Reason, SessionsOf};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Admin,
    failure::{Failure, audited},
    guard::Caller,
};
use crate::{
    fleet::in_order,
    pages::{elsewhere, json::listed_session},
    session_rights::may_end,
};

/// The body of a forced end.
#[derive(Debug, Deserialize)]
pub(super) struct EndSession {
    digest: String,
    reason: String,
    /// The digest again, as the operator typed it.
    confirm: String,
}

/// Fails unless this is the token of a page of sessions, which is the last digest before it.
pub(super) fn page_token(token: &str) -> Result<(), Invalid> {
    if token.bytes().all(|it| it.is_ascii_hexdigit()) {
        return Ok(());
    }
    Err(Invalid::new("page_token", "is not one that was given out"))
}

/// A page of the sessions of all coordinators; see [`in_order`].
pub(super) async fn list_all(
    admin: &Admin,
    caller: &Caller,
    page_size: usize,
    page_token: &str,
) -> Value {
    let listed = admin.coordinator.list_sessions(page_size, page_token);
    let page_size = u32::try_from(page_size).unwrap_or(u32::MAX);
    let forwarded = caller.forwarded();
    let others = admin
        .fleet
        .sessions(&forwarded, page_size, page_token)
        .await;
    let mut sessions: Vec<Value> = listed.sessions.iter().map(listed_session).collect();
    let mut count = listed.count;
    let mut next = vec![listed.next.unwrap_or_default()];
    for (_, other) in others.answers {
        sessions.extend(other.sessions.iter().map(elsewhere::session));
        count += other.session_count as usize;
        next.push(other.next_page_token);
    }
    let digest = |it: &Value| it["sessionDigest"].as_str().unwrap_or_default().to_owned();
    let next = in_order(&mut sessions, digest, next);
    json!({
        "sessions": sessions,
        "sessionCount": count,
        "nextPageToken": Some(next).filter(|next| !next.is_empty()),
        "unasked": others.unasked.iter().map(elsewhere::unasked).collect::<Vec<_>>(),
    })
}

pub(super) async fn end_session(
    State(admin): State<Admin>,
    caller: Caller,
    body: Result<Json<EndSession>, JsonRejection>,
) -> Result<Json<Value>, Failure> {
    let Json(request) = body?;
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
        let own = admin.coordinator.end_sessions(sessions, &reason);
        let others = pb::EndSessionRequest {
            session_digest: request.digest.clone(),
            reason: request.reason.clone(),
            ..pb::EndSessionRequest::default()
        };
        let forwarded = caller.forwarded();
        let ended = admin.fleet.end_sessions(&forwarded, &others, own).await;
        if ended.session_count == 0 && ended.unasked.is_empty() {
            return Err(Error::SessionNotFound);
        }
        Ok(ended)
    };
    let ended = audited(&asked, end.await)?;
    Ok(Json(json!({
        "sessionCount": ended.session_count,
        "grantCount": ended.grant_count,
        "unasked": ended.unasked.iter().map(elsewhere::unasked).collect::<Vec<_>>(),
    })))
}
