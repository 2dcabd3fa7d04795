//! Commands about locks held by other callers.

use std::{
    cmp::Reverse,
    io::{self, BufRead as _, IsTerminal as _},
};

use lockkeeper_api::pb::{
    EndSessionRequest, ForceReleaseRequest, ListCoordinatorsRequest, ListLocksRequest,
    ListSessionsRequest, LockSummary, UnaskedCoordinator, WatchLockResponse, WatchRequest,
    WatchResponse, watch_response::Event,
};
use serde_json::Value;
use tonic::Status;

use lockkeeper_client::LockEvent;

use super::{
    again::Patience,
    ended::{Ended, changed, changing, code, reading},
};
use crate::{
    args::{
        CommonArgs, EndSessionArgs, FleetArgs, FleetPrefixArgs, ForceReleaseArgs, ListArgs, Sort,
        WatchArgs,
    },
    client::{connect_admin, connected, short},
    exit,
    failure::{Effect, Failure},
    output::{Format, admin as words, lock_event, say},
};

/// A table, or one line of JSON for each name.
pub(crate) async fn list(args: ListArgs) -> Ended {
    let ListArgs {
        sort,
        held_longer_than,
        names,
    } = args;
    let FleetPrefixArgs { prefix, fleet } = names;
    let format = fleet.common.output;
    let mut client = connect_admin(&fleet.common.server).await?;
    let mut request = ListLocksRequest {
        prefix,
        fleet: !fleet.this_coordinator,
        ..ListLocksRequest::default()
    };
    let mut locks = Vec::new();
    loop {
        let page = client.list_locks(short(request.clone())).await;
        let page = page.map_err(reading)?.into_inner();
        // Each page asks anew.
        if request.page_token.is_empty() {
            page.unasked.iter().for_each(say_unasked);
        }
        let is_wanted = |lock: &LockSummary| {
            held_longer_than.is_none_or(|least| words::held_for(lock) > Some(least))
        };
        locks.extend(page.locks.into_iter().filter(is_wanted));
        // What needs no order is printed as it comes.
        if (format, sort) == (Format::Json, None) {
            lines(format, locks.drain(..))?;
        }
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    match sort.unwrap_or(Sort::Name) {
        Sort::Name => locks.sort_by(|a, b| a.name.cmp(&b.name)),
        Sort::Waiters => locks.sort_by_key(|lock| Reverse(lock.waiter_count)),
        Sort::Held => locks.sort_by_key(|lock| Reverse(words::held_for(lock))),
        Sort::Lease => locks.sort_by_key(|lock| {
            let left = lock.remaining_lease.as_ref();
            Reverse(left.map(|left| (left.seconds, left.nanos)))
        }),
    }
    match format {
        Format::Json => lines(format, locks.drain(..))?,
        Format::Text if locks.is_empty() => say(if held_longer_than.is_some() {
            "no known session has held a lock for that long"
        } else {
            "no name is held or waited for"
        }),
        Format::Text => format.data(&words::locks(&locks), &Value::Null)?,
    }
    Ok(exit::OK)
}

fn lines(format: Format, locks: impl Iterator<Item = LockSummary>) -> io::Result<()> {
    for lock in locks {
        format.answer("", "LockSummary", &lock)?;
    }
    Ok(())
}

/// One line for each session.
pub(crate) async fn sessions(args: FleetArgs) -> Ended {
    let FleetArgs {
        this_coordinator,
        common,
    } = args;
    let mut client = connect_admin(&common.server).await?;
    let mut request = ListSessionsRequest {
        fleet: !this_coordinator,
        ..ListSessionsRequest::default()
    };
    loop {
        let page = client.list_sessions(short(request.clone())).await;
        let page = page.map_err(reading)?.into_inner();
        // Each page asks anew.
        if request.page_token.is_empty() {
            page.unasked.iter().for_each(say_unasked);
        }
        for session in &page.sessions {
            let text = words::session(session);
            common.output.answer(&text, "SessionSummary", session)?;
        }
        if page.next_page_token.is_empty() {
            return Ok(exit::OK);
        }
        request.page_token = page.next_page_token;
    }
}

/// One line for each coordinator.
pub(crate) async fn coordinators(args: FleetArgs) -> Ended {
    let mut client = connect_admin(&args.common.server).await?;
    let request = ListCoordinatorsRequest {
        fleet: !args.this_coordinator,
    };
    let answer = client.list_coordinators(short(request)).await;
    let answer = answer.map_err(reading)?.into_inner();
    for coordinator in &answer.coordinators {
        let text = words::coordinator(coordinator);
        let format = args.common.output;
        format.answer(&text, "CoordinatorSummary", coordinator)?;
    }
    answer.unasked.iter().for_each(say_unasked);
    Ok(exit::OK)
}

/// What is missing, besides the data.
fn say_unasked(coordinator: &UnaskedCoordinator) {
    let UnaskedCoordinator {
        coordinator,
        reason,
        ..
    } = coordinator;
    match coordinator.as_str() {
        "" => say(reason),
        name => say(&format!("could not ask {name}: {reason}")),
    }
}

/// One line for each event. Goes on when the coordinator comes back, with the state at that time.
pub(crate) async fn watch(args: WatchArgs) -> Ended {
    let WatchArgs { name, names } = args;
    let FleetPrefixArgs { prefix, fleet } = names;
    if let Some(name) = name {
        return watch_lock(name, fleet.common).await;
    }
    let format = fleet.common.output;
    let request = WatchRequest {
        prefix,
        fleet: !fleet.this_coordinator,
    };
    let mut patience = Patience::new(None);
    loop {
        let watched = async {
            let mut client = connect_admin(&fleet.common.server).await?;
            let events = client.watch(request.clone()).await;
            let mut events = events.map_err(reading)?.into_inner();
            while let Some(answer) = events.message().await.map_err(reading)? {
                patience.begun();
                show(format, &answer)?;
            }
            Err(Failure::unavailable("the coordinator ended the watch"))
        };
        let watched: Result<(), Failure> = watched.await;
        if let Err(failure) = watched {
            patience.after(failure).await?;
        }
    }
}

fn show(format: Format, answer: &WatchResponse) -> io::Result<()> {
    let entries = match &answer.event {
        Some(Event::Snapshot(snapshot)) => snapshot.entries.as_slice(),
        Some(Event::Delta(delta)) => std::slice::from_ref(delta),
        Some(Event::Unasked(coordinator)) => {
            say_unasked(coordinator);
            &[]
        }
        None => &[],
    };
    for entry in entries {
        format.answer(&words::event(entry), "WatchDelta", entry)?;
    }
    Ok(())
}

/// One line for each event. Goes on at another coordinator if one fails.
async fn watch_lock(name: String, common: CommonArgs) -> Ended {
    let client = connected(async { common.server.client() }).await?;
    let mut watch = client.watch_lock(name.as_str());
    loop {
        let event = watch.next().await;
        let event = event.map_err(|error| Failure::from_error(&error, Effect::Reads))?;
        let event: Option<LockEvent> = Some(event);
        let answer = WatchLockResponse { event };
        let text = lock_event(&name, &answer);
        common.output.answer(&text, "WatchLockResponse", &answer)?;
    }
}

pub(crate) async fn force_release(args: ForceReleaseArgs) -> Ended {
    if !args.yes {
        say("its holders may still be working when others acquire it");
        confirm(&args.name, "force the release")?;
    }
    let mut client = connect_admin(&args.common.server).await?;
    let request = ForceReleaseRequest {
        name: args.name.clone(),
        reason: args.reason,
        grace_period: Some(args.grace_period),
    };
    let answer = client.force_release(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let text = words::forced(&args.name, &answer);
    let format = args.common.output;
    changed(format, &text, ("ForceReleaseResponse", &answer))?;
    code(answer.released)
}

pub(crate) async fn end_session(args: EndSessionArgs) -> Ended {
    let digest = args.sessions.digest.unwrap_or_default();
    let identity = args.sessions.identity.unwrap_or_default();
    if !args.yes {
        say("its clients may still be working, and others can acquire their locks at once");
        confirm(&[digest.as_str(), &identity].concat(), "end the sessions")?;
    }
    let FleetArgs {
        this_coordinator,
        common,
    } = args.fleet;
    let mut client = connect_admin(&common.server).await?;
    let request = EndSessionRequest {
        session_digest: digest,
        identity,
        reason: args.reason,
        fleet: !this_coordinator,
    };
    let answer = client.end_session(short(request)).await;
    let answer = answer.map_err(ending)?.into_inner();
    answer.unasked.iter().for_each(say_unasked);
    let text = words::sessions_ended(&answer);
    changed(common.output, &text, ("EndSessionResponse", &answer))?;
    // There may be more of them.
    if !answer.unasked.is_empty() {
        return Ok(exit::OUTCOME_UNKNOWN);
    }
    code(answer.session_count > 0)
}

/// That no session has the digest is an expected answer, but not the wanted one.
fn ending(status: Status) -> Failure {
    let failure = changing(status);
    match failure.reason.as_str() {
        "SESSION_NOT_FOUND" => Failure {
            exit: exit::NOT_GRANTED,
            ..failure
        },
        _ => failure,
    }
}

/// Asks the user to type the name once more. Fails without a terminal.
fn confirm(name: &str, to: &str) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::local(exit::USAGE, why));
    if !io::stdin().is_terminal() {
        return refuse("no terminal to ask for confirmation: pass --yes");
    }
    say(&format!("type {name} to {to}"));
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed)?;
    if typed.trim_end_matches(['\r', '\n']) == name {
        Ok(())
    } else {
        refuse("the name does not match; nothing was done")
    }
}
