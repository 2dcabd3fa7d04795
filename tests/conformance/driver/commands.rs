//! What each command does.

use lockkeeper_api::pb;
use lockkeeper_client::{Error, NotGrantedReason, Session, short};
use serde_json::{Value, json};

use crate::{
    contend::contend,
    feeds::follow,
    guards::Held,
    session::State,
    speed::speed,
    wire::{Command, Failure},
};

/// Runs a command to its end.
pub(crate) async fn run(state: &State, command: Command) -> Result<Value, Failure> {
    match command.action.as_str() {
        "connect" => state.connect(command).await.map(|()| json!({})),
        "close" => {
            state.session().await?.close().await?;
            Ok(json!({}))
        }
        "acquire"
        | "try_acquire"
        | "acquire_all"
        | "try_acquire_all"
        | "acquire_permits"
        | "try_acquire_permits"
        | "campaign"
        | "claim" => {
            let session = state.session().await?;
            let held = acquire(&session, &command).await?;
            let described = held.describe();
            state.keep(command, held).await;
            Ok(described)
        }
        "release" => {
            state.take(&command.guard).await?.release().await?;
            Ok(json!({}))
        }
        "renew" => {
            let guard = state.guard(&command.guard).await?;
            guard.renew(command.lease()).await?;
            Ok(guard.describe())
        }
        "offer" => match &*state.guard(&command.guard).await? {
            Held::Locks(guard) => Ok(json!({ "ticket": guard.offer(None).await? })),
            _ => Err(Failure::of_kind("misconfigured")),
        },
        "observe" | "watch_lock" | "await_free" => follow(&state.client().await?, &command).await,
        "proclaim" => match &*state.guard(&command.guard).await? {
            Held::Leads(leadership) => {
                let revision = leadership.proclaim(command.value).await?;
                Ok(json!({ "revision": revision.to_string() }))
            }
            _ => Err(Failure::of_kind("misconfigured")),
        },
        "state" => Ok(state.guard(&command.guard).await?.describe()),
        "sessions" => state.open_idle(&command).await.map(|()| json!({})),
        "speed" => speed(&command).await,
        "contend" => contend(&state.session().await?, &command).await,
        action if action.starts_with("once_") => once(state, &command).await,
        _ => in_session(&state.session().await?, &command).await,
    }
}

/// Sets the options that all requests have.
macro_rules! with_options {
    ($request:expr, $command:ident) => {{
        let mut request = $request.min_replica_acks($command.min_replica_acks);
        if let Some(owner) = &$command.owner {
            request = request.owner(owner);
        }
        if let Some(lease) = $command.lease() {
            request = request.lease(lease);
        }
        if let Some(wait) = $command.wait() {
            request = request.wait_timeout(wait);
        }
        request
    }};
}

/// Waits, or tries.
macro_rules! acquired {
    ($request:expr, $command:ident, $held:expr) => {{
        let request = with_options!($request, $command);
        if $command.action.starts_with("try_") {
            request.try_acquire().await?.map($held).ok_or_else(busy)
        } else {
            Ok($held(request.acquire().await?))
        }
    }};
}

async fn acquire(session: &Session, command: &Command) -> Result<Held, Failure> {
    match command.action.as_str() {
        "acquire_permits" | "try_acquire_permits" => {
            let permits = session.semaphore(&command.name).permits(command.permits);
            acquired!(permits, command, Held::Permits)
        }
        "acquire_all" | "try_acquire_all" => {
            let mut locks = session.locks(Vec::<String>::new());
            for name in &command.names {
                locks = locks.lock(name, command.mode());
            }
            acquired!(locks, command, Held::Locks)
        }
        "campaign" => {
            let election = session.election(&command.name);
            let leadership = election.campaign(&command.value).await?;
            Ok(Held::Leads(leadership))
        }
        "claim" => {
            let guard = session.claim(&command.name, &command.ticket).await?;
            Ok(Held::Locks(guard))
        }
        _ => {
            let mut lock = session.lock(&command.name).mode(command.mode());
            if !command.reason.is_empty() {
                lock = lock.reason(&command.reason);
            }
            for (key, value) in &command.labels {
                lock = lock.label(key, value);
            }
            acquired!(lock, command, Held::Locks)
        }
    }
}

pub(crate) fn busy() -> Failure {
    Error::NotGranted {
        name: String::new(),
        reason: NotGrantedReason::Unspecified,
        holder_remaining_lease: None,
        holder_note: None,
        available: None,
    }
    .into()
}

async fn in_session(session: &Session, command: &Command) -> Result<Value, Failure> {
    let semaphore = session.semaphore(&command.name);
    let latch = session.latch(&command.name);
    Ok(match command.action.as_str() {
        "set_permits" => {
            semaphore.set_permits(command.permits).await?;
            json!({})
        }
        "describe_semaphore" => {
            let seen = semaphore.describe().await?;
            json!({ "permits": seen.total, "available": seen.available })
        }
        "set_count" => {
            let set = latch.set_count(command.count, None).await?;
            json!({ "count": set.count })
        }
        "count_down" => json!({ "count": latch.count_down(command.by.unwrap_or(1)).await? }),
        "await_latch" => {
            latch.wait(command.wait()).await?;
            json!({})
        }
        "describe_latch" => json!({ "count": latch.describe().await?.count }),
        "delete_latch" => {
            latch.delete().await?;
            json!({})
        }
        "describe" => {
            let seen = session.describe(&command.name).await?;
            json!({
                "holder_count": seen.holder_count,
                "waiter_count": seen.waiter_count,
                "last_fencing_token": seen.last_fencing_token.to_string(),
            })
        }
        "check_token" => {
            let token = command.fencing_token.as_deref().unwrap_or_default();
            let token = token.parse().unwrap_or_default();
            let checked = session.check_token(&command.name, token).await?;
            json!({ "current": checked.current })
        }
        _ => return Err(Failure::of_kind("unsupported")),
    })
}

/// Calls without a session.
async fn once(state: &State, command: &Command) -> Result<Value, Failure> {
    let mut locks = state.client().await?.locks().await?;
    let name = command.name.clone();
    let owner = command.owner.clone().unwrap_or_default();
    let lease = command.lease().and_then(|it| it.try_into().ok());
    let mode = command.mode().into();
    Ok(match command.action.as_str() {
        "once_try_acquire" => {
            let request = pb::TryAcquireRequest {
                name,
                owner,
                lease,
                mode,
                ..pb::TryAcquireRequest::default()
            };
            let tried = locks.try_acquire(short(request)).await?.into_inner();
            let token = tried.grant.map(|it| it.fencing_token.to_string());
            json!({ "acquired": tried.acquired, "fencing_token": token })
        }
        "once_renew" => {
            let request = pb::RenewRequest {
                name,
                owner,
                lease,
                mode,
                ..pb::RenewRequest::default()
            };
            locks.renew(short(request)).await?;
            json!({})
        }
        "once_release" => {
            let request = pb::ReleaseRequest {
                name,
                owner,
                mode,
                ..pb::ReleaseRequest::default()
            };
            locks.release(short(request)).await?;
            json!({})
        }
        _ => return Err(Failure::of_kind("unsupported")),
    })
}
