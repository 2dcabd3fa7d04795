//! The events of all other coordinators.

use std::collections::{BTreeMap, BTreeSet};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use lockkeeper_api::pb::{self, watch_response::Event};
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_coordinator::{ANNOUNCE_INTERVAL, Announced};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;

use super::{
    connect::TIMEOUT,
    forwarded::Forwarded,
    peers::{Fleet, name, of_coordinator, too_slow, unasked, unknown, why},
};

/// Events that wait for their reader. While there are as many, the other coordinators are not read.
const EVENTS_MAX: usize = 64;

/// The id of a coordinator, whether there were events of it, and why they ended.
type Ended = (String, bool, pb::UnaskedCoordinator);

type Events = mpsc::Sender<pb::WatchResponse>;

/// An item of a watch with the name of its coordinator.
pub(crate) fn named(mut item: pb::WatchResponse, coordinator: &str) -> pb::WatchResponse {
    match &mut item.event {
        Some(Event::Snapshot(part)) => {
            coordinator.clone_into(&mut part.coordinator);
            for entry in &mut part.entries {
                coordinator.clone_into(&mut entry.coordinator);
            }
        }
        Some(Event::Delta(delta)) => coordinator.clone_into(&mut delta.coordinator),
        Some(Event::Unasked(_)) | None => {}
    }
    item
}

// === impl Fleet ===

impl Fleet {
    /// The events of each other coordinator, also of those that appear later. What could not be
    /// asked, or ends, is said once.
    pub(crate) fn watch(
        &self,
        forwarded: Forwarded,
        prefix: String,
    ) -> ReceiverStream<pb::WatchResponse> {
        let (events, read) = mpsc::channel(EVENTS_MAX);
        spawn_detached(
            "fleet-watch",
            self.clone().follow(forwarded, prefix, events),
        );
        ReceiverStream::new(read)
    }

    async fn follow(self, forwarded: Forwarded, prefix: String, events: Events) {
        let mut looks = tokio::time::interval(ANNOUNCE_INTERVAL);
        let mut watched: FuturesUnordered<BoxFuture<'_, Ended>> = FuturesUnordered::new();
        let mut under_way = BTreeSet::new();
        // Why each coordinator is not watched, as was said last.
        let mut said: BTreeMap<String, String> = BTreeMap::new();
        loop {
            let failed = tokio::select! {
                () = events.closed() => return,
                Some((id, has_begun, failed)) = watched.next() => {
                    under_way.remove(&id);
                    if has_begun {
                        said.remove(&failed.coordinator);
                    }
                    Some(failed)
                }
                _ = looks.tick() => match self.others().await {
                    Err(error) => Some(unknown(&error)),
                    Ok(others) => {
                        said.retain(|name, _| {
                            others.iter().any(|other| self::name(other) == *name)
                        });
                        for other in others {
                            if under_way.insert(other.id.clone()) {
                                let carried = self.carry(other, &forwarded, &prefix, &events);
                                watched.push(carried.boxed());
                            }
                        }
                        None
                    }
                },
            };
            if let Some(failed) = failed {
                let last = said.insert(failed.coordinator.clone(), failed.reason.clone());
                if last.as_ref() != Some(&failed.reason) {
                    let event = Some(Event::Unasked(failed));
                    let _ = events.send(pb::WatchResponse { event }).await;
                }
            }
        }
    }

    /// Passes the events of a coordinator on until they end.
    async fn carry(
        &self,
        other: Announced,
        forwarded: &Forwarded,
        prefix: &str,
        events: &Events,
    ) -> Ended {
        let mut has_begun = false;
        let carry = async {
            let mut client = self.client(&other, forwarded)?;
            let request = forwarded.request(pb::WatchRequest {
                prefix: prefix.to_owned(),
                fleet: false,
            });
            let begun = timeout(TIMEOUT, client.watch(request)).await;
            let answer = begun.map_err(|_| too_slow())?;
            let mut answers = of_coordinator(&other, answer)?.into_inner();
            has_begun = true;
            while let Some(answer) = answers.message().await.map_err(|it| why(&it))? {
                if events.send(named(answer, &name(&other))).await.is_err() {
                    break;
                }
            }
            Err::<(), String>("its events ended".to_owned())
        };
        let reason = carry.await.err().unwrap_or_default();
        let failed = unasked(&other, reason);
        (other.id, has_begun, failed)
    }
}
