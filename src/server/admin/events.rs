//! Events as they happen, for browsers and programs.

use std::convert::Infallible;

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    http::StatusCode,
    response::sse::{self, KeepAlive, Sse},
};
use futures::{Stream, StreamExt as _, stream};
use lockkeeper_coordinator::{Error, Limit};
use serde::Deserialize;
use serde_json::Value;

use super::{Admin, failure::Failure, guard::Caller};
use crate::pages::{elsewhere, json::watched};

/// Which events are wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Wanted {
    prefix: String,
    /// Whether those of the other coordinators are, too.
    fleet: bool,
}

pub(super) async fn events(
    State(admin): State<Admin>,
    caller: Caller,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Failure> {
    let Query(Wanted { prefix, fleet }) = wanted?;
    let asked = caller.asks(&admin, "Watch", &prefix, "")?;
    let place = admin.streams.admit(caller.ip());
    let place = place.map_err(|_full| {
        let why = "too many event streams of this address, or in all";
        Failure::new(StatusCode::TOO_MANY_REQUESTS, "LIMIT_REACHED", why)
    })?;
    let own = admin.access.watch(caller.identity());
    let own = own.ok_or(Error::LimitReached(Limit::Watchers));
    let watcher = own.and_then(|own| Ok((admin.coordinator.watch(prefix.clone())?, own)));
    let (watcher, own) = watcher.map_err(|error| {
        asked.failed(&error);
        Failure::of(&error)
    })?;
    asked.done();
    let own_name = admin.fleet.own_name().filter(|_| fleet);
    let others = match &own_name {
        Some(_) => admin
            .fleet
            .watch(caller.forwarded(), prefix.clone())
            .boxed(),
        None => stream::pending().boxed(),
    };
    let coordinator = admin.coordinator.clone();
    let refused = caller.clone().refused(admin.access.clone(), prefix);
    // Ends when the coordinator drains, too.
    let begin = (watcher, others, (place, own));
    let told = stream::unfold(begin, move |(mut watcher, mut others, places)| {
        let (coordinator, own_name) = (coordinator.clone(), own_name.clone());
        async move {
            let (name, data) = tokio::select! {
                told = watcher.next() => {
                    let (name, mut data) = watched(&coordinator, &told.ok()?);
                    if let Some(own_name) = own_name {
                        name_all(&mut data, &own_name);
                    }
                    (name, data)
                }
                Some(told) = others.next() => elsewhere::watched(&told.event?),
            };
            let event = sse::Event::default().event(name).data(data.to_string());
            Some((Ok(event), (watcher, others, places)))
        }
    });
    let told = told.take_until(refused);
    Ok(Sse::new(told).keep_alive(KeepAlive::default()))
}

/// An event or a snapshot with the name of its coordinator.
fn name_all(data: &mut Value, coordinator: &str) {
    data["coordinator"] = coordinator.into();
    for entry in data["entries"].as_array_mut().into_iter().flatten() {
        entry["coordinator"] = coordinator.into();
    }
}
