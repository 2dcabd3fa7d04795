//! The JSON behind the console; see `docs/console.md`.

use std::time::Duration;

use axum::{
    Json, Router,
    extract::{
        Query, State,
        rejection::{JsonRejection, QueryRejection},
    },
    http::Uri,
    routing::{get, post},
};
use lockkeeper_coordinator::{Error, Invalid, Lease, LockName, Reason, RequestYield};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Admin,
    events::events,
    failure::{Failure, audited},
    guard::Caller,
    sessions::{end_session, list_all, page_token},
};
use crate::{
    fleet::Asked,
    pages::{PAGES, Page, elsewhere, json::listed_lock},
};

/// The parameters of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Listing {
    prefix: String,
    /// Behind the prefix.
    contains: String,
    page_size: usize,
    page_token: String,
}

/// The body of a forced release.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ForceRelease {
    name: String,
    reason: String,
    /// The name again, as the operator typed it.
    confirm: String,
    /// As in the gRPC call, at most the lease that is left.
    #[serde(default)]
    grace_period_seconds: u32,
}

/// The body of a request to yield.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AskToYield {
    name: String,
    reason: String,
    /// As in the gRPC call.
    within_seconds: Option<u32>,
}

pub(super) fn routes() -> Router<Admin> {
    pages()
        .route("/api/v1/status", get(status))
        .route("/api/v1/locks", get(locks))
        .route("/api/v1/sessions", get(sessions))
        .route("/api/v1/end-session", post(end_session))
        .route("/api/v1/events", get(events))
        .route("/api/v1/force-release", post(force_release))
        .route("/api/v1/request-yield", post(request_yield))
}

fn pages() -> Router<Admin> {
    let add = |routes: Router<Admin>, page| routes.route(&format!("/api/v1/{page}"), get(show));
    PAGES.into_iter().fold(Router::new(), add)
}

async fn show(
    State(admin): State<Admin>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Value>, Failure> {
    let refuse = |error| Failure::of(&error);
    let (_, path) = uri.path().rsplit_once('/').unwrap_or_default();
    let query = uri.query().unwrap_or_default();
    let page = Page::parse(path, query).map_err(|error| refuse(error.into()))?;
    let (operation, name) = page.asks();
    caller.looks(&admin, operation, name)?;
    let own = page.read(&admin.local()).await.map_err(refuse)?;
    let others = if page.is_answered(&own) {
        Asked::default()
    } else {
        let forwarded = caller.forwarded();
        admin.fleet.page(&forwarded, path, query).await
    };
    let own_name = admin.fleet.own_name();
    match page.together(own_name.as_deref(), own, others) {
        Value::Null => Err(refuse(Error::SessionNotFound)),
        page => Ok(Json(page)),
    }
}

async fn status(State(admin): State<Admin>, caller: Caller) -> Result<Json<Value>, Failure> {
    caller.looks(&admin, "Status", "")?;
    let coordinator = &admin.coordinator;
    let store = admin.probe.store_answers().await;
    let load = coordinator.load();
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "draining": coordinator.is_draining(),
        "storeAnswers": store.is_ok(),
        "storeError": store.err(),
        "sessions": load.sessions,
        "waiters": load.waiters,
        "forceReleaseAllowed": admin.allow_force_release,
    })))
}

async fn locks(
    State(admin): State<Admin>,
    caller: Caller,
    page: Result<Query<Listing>, QueryRejection>,
) -> Result<Json<Value>, Failure> {
    let Query(page) = page?;
    caller.looks(&admin, "ListLocks", &page.prefix)?;
    let listed = admin.coordinator.search_locks(
        &page.prefix,
        &page.contains,
        page.page_size,
        &page.page_token,
    );
    let mut listed = listed.await.map_err(|error| Failure::of(&error))?;
    let (forwarded, locks) = (caller.forwarded(), &mut listed.locks);
    let unasked = admin.fleet.complete(&forwarded, &page.prefix, locks).await;
    let unasked = unasked.iter().map(elsewhere::unasked);
    let locks: Vec<Value> = listed.locks.into_iter().map(listed_lock).collect();
    Ok(Json(json!({
        "locks": locks,
        "nextPageToken": listed.next,
        "unasked": unasked.collect::<Vec<_>>(),
    })))
}

async fn sessions(
    State(admin): State<Admin>,
    caller: Caller,
    page: Result<Query<Listing>, QueryRejection>,
) -> Result<Json<Value>, Failure> {
    let Query(page) = page?;
    caller.looks(&admin, "ListSessions", "")?;
    page_token(&page.page_token).map_err(|error| Failure::of(&error.into()))?;
    Ok(Json(
        list_all(&admin, &caller, page.page_size, &page.page_token).await,
    ))
}

/// Pages of other sites cannot send JSON here without a preflight request, which is never granted.
async fn force_release(
    State(admin): State<Admin>,
    caller: Caller,
    body: Result<Json<ForceRelease>, JsonRejection>,
) -> Result<Json<Value>, Failure> {
    let Json(request) = body?;
    let asked = caller.asks(&admin, "ForceRelease", &request.name, &request.reason)?;
    admin.may_change(&asked)?;
    let release = async {
        let name = LockName::parse(&request.name, admin.coordinator.limits())?;
        let reason = Reason::parse(&request.reason)?;
        if request.confirm != request.name {
            return Err(Invalid::new("confirm", "is not the name").into());
        }
        let grace = Duration::from_secs(request.grace_period_seconds.into());
        if !grace.is_zero() {
            Lease::named("gracePeriodSeconds", grace, admin.coordinator.limits())?;
        }
        admin.coordinator.force_release(&name, &reason, grace).await
    };
    let released = audited(&asked, release.await)?;
    Ok(Json(json!({
        "released": released.holder_count > 0,
        "holderCount": released.holder_count,
    })))
}

async fn request_yield(
    State(admin): State<Admin>,
    caller: Caller,
    body: Result<Json<AskToYield>, JsonRejection>,
) -> Result<Json<Value>, Failure> {
    let Json(request) = body?;
    let asked = caller.asks(&admin, "RequestYield", &request.name, &request.reason)?;
    admin.may_change(&asked)?;
    let identity = caller.identity();
    let ask = async {
        let within = request.within_seconds.map(u64::from);
        let ask = RequestYield {
            name: LockName::parse(&request.name, admin.coordinator.limits())?,
            by: if identity.is_anonymous() {
                "the console".to_owned()
            } else {
                identity.as_str().to_owned()
            },
            reason: Reason::parse(&request.reason)?,
            within: RequestYield::within(within.map(Duration::from_secs))?,
            preempt: None,
            for_owner: None,
            account: admin.access.account(identity.clone()),
        };
        admin.coordinator.request_yield(ask).await
    };
    let requested = audited(&asked, ask.await)?;
    let reached = requested.holders.iter().filter(|(_, reached)| *reached);
    Ok(Json(json!({
        "holderCount": requested.holder_count,
        "reachedCount": reached.count(),
    })))
}
