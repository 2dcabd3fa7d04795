//! What the session holds, and for which guards.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use lockkeeper_api::pb::{
    Grant, LockSpec, PermitGrant, ReleaseAllRequest, ReleasePermitsRequest, ReleaseRequest,
    session_request::Request,
};
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{command::Answer, operation::known_mode};
use crate::{
    Error, Thing,
    guard::{Known, Loss},
};

/// One grant, whoever shares it.
pub(super) struct Holding {
    pub(super) thing: Thing,
    pub(super) known: Arc<Known>,
    /// None hold it any more, but it has not been given back yet: nobody is told of its loss.
    pub(super) guards: Vec<u64>,
    /// None: it has a lease of its own.
    pub(super) renew_at: Option<Instant>,
    /// The renewal under way.
    pub(super) renewal: Option<u64>,
}

/// What one guard has.
pub(super) struct Entry {
    pub(super) holdings: Vec<u64>,
    pub(super) lost: CancellationToken,
    /// The request that gives it back.
    pub(super) release: Request,
    /// Who is to get the guard once all of it was renewed: the answer took so long that it does not
    /// tell until when it is valid.
    pub(super) unconfirmed: Option<Unconfirmed>,
}

/// See [`Entry::unconfirmed`].
pub(super) struct Unconfirmed {
    pub(super) answer: oneshot::Sender<Result<Answer, Error>>,
    pub(super) things: Vec<Thing>,
    pub(super) left: Vec<u64>,
}

/// How a grant is found by what the coordinator says of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Lock(String, String, i32),
    Permit(String),
}

/// All that the session holds.
#[derive(Default)]
pub(super) struct Book {
    pub(super) holdings: BTreeMap<u64, Holding>,
    pub(super) guards: HashMap<u64, Entry>,
    by_key: HashMap<Key, u64>,
}

// === impl Book ===

impl Book {
    /// Adds a grant, or one more hold of a known one, and says under which number it stands.
    pub(super) fn add(&mut self, guard: u64, id: u64, thing: Thing, until: Instant) -> u64 {
        if let Some(known) = self.find(&thing)
            && let Some(holding) = self.holdings.get_mut(&known)
        {
            holding.guards.push(guard);
            holding.thing = thing;
            let until = until.max(holding.known.valid_until());
            holding.known.set_valid_until(until);
            return known;
        }
        for key in keys(&thing) {
            self.by_key.insert(key, id);
        }
        let known = Arc::new(Known::new(thing.name(), until));
        self.holdings.insert(
            id,
            Holding {
                thing,
                known,
                guards: vec![guard],
                renew_at: None,
                renewal: None,
            },
        );
        id
    }

    /// The number of the grant that this is, as it was known at another time.
    pub(super) fn find(&self, thing: &Thing) -> Option<u64> {
        keys(thing)
            .iter()
            .find_map(|key| self.by_key.get(key))
            .copied()
    }

    /// It is not held any more. Its guards are told, and returned.
    pub(super) fn lose(&mut self, id: u64, loss: &Loss) -> Vec<u64> {
        let Some(holding) = self.remove(id) else {
            return Vec::new();
        };
        holding.known.lose(loss.clone());
        for guard in &holding.guards {
            if let Some(entry) = self.guards.get(guard) {
                entry.lost.cancel();
            }
        }
        holding.guards
    }

    /// Forgets a grant.
    pub(super) fn remove(&mut self, id: u64) -> Option<Holding> {
        let holding = self.holdings.remove(&id)?;
        for key in keys(&holding.thing) {
            if self.by_key.get(&key) == Some(&id) {
                self.by_key.remove(&key);
            }
        }
        Some(holding)
    }

    /// What to name when the session is resumed.
    pub(super) fn named(&self) -> (Vec<Grant>, Vec<PermitGrant>) {
        let things = || self.holdings.values().map(|it| &it.thing);
        let locks = things().filter_map(Thing::lock).cloned().collect();
        let permits = things().filter_map(Thing::permits).cloned().collect();
        (locks, permits)
    }
}

fn keys(thing: &Thing) -> Vec<Key> {
    match thing {
        Thing::Lock(grant) => vec![Key::Lock(
            grant.name.clone(),
            grant.owner.clone(),
            known_mode(grant.mode),
        )],
        Thing::Permits(grant) => grant.permit_ids.iter().cloned().map(Key::Permit).collect(),
    }
}

/// What gives back what one request took.
pub(super) fn release_of(things: &[Thing]) -> Request {
    match things {
        [Thing::Permits(grant), ..] => Request::ReleasePermits(ReleasePermitsRequest {
            name: grant.name.clone(),
            owner: grant.owner.clone(),
            permit_ids: grant.permit_ids.clone(),
            ..ReleasePermitsRequest::default()
        }),
        [Thing::Lock(grant)] => Request::Release(ReleaseRequest {
            name: grant.name.clone(),
            owner: grant.owner.clone(),
            mode: grant.mode,
            ..ReleaseRequest::default()
        }),
        several => {
            let locks = || several.iter().filter_map(Thing::lock);
            Request::ReleaseAll(ReleaseAllRequest {
                owner: locks()
                    .next()
                    .map(|it| it.owner.clone())
                    .unwrap_or_default(),
                locks: locks()
                    .map(|grant| LockSpec {
                        name: grant.name.clone(),
                        mode: grant.mode,
                    })
                    .collect(),
                ..ReleaseAllRequest::default()
            })
        }
    }
}
