//! Stores that do not carry out commands as they were asked to.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_store::{
    host::{Commands, HostError, Numbers, Value, embedded::EmbeddedStore},
    script::keys,
};
use tokio::time::sleep;

/// What is wrong with commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NativeHole {
    Replaces,
    CountsFirst,
    RemovesAnyGrant,
    TellsEarly,
    NeverLooks,
    TellsNobody,
    IsUnsure,
    IsAway,
}

/// Locks that are to be made when their counters were raised.
pub(crate) type Owed = HashMap<Bytes, Duration>;

/// So much later comes what comes in the wrong order.
const LATER: Duration = Duration::from_millis(400);

// === impl NativeHole ===

impl NativeHole {
    pub(crate) const ALL: [Self; 8] = [
        Self::Replaces,
        Self::CountsFirst,
        Self::RemovesAnyGrant,
        Self::TellsEarly,
        Self::NeverLooks,
        Self::TellsNobody,
        Self::IsUnsure,
        Self::IsAway,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Replaces => "a lock is made although it exists",
            Self::CountsFirst => "the counter is raised before the lock is made",
            Self::RemovesAnyGrant => "a release does not look at the grant",
            Self::TellsEarly => "a token is told before the counter is raised",
            Self::NeverLooks => "nobody looks whether the lock is still there",
            Self::TellsNobody => "a release without a script tells nobody",
            Self::IsUnsure => "the outcome of making a lock is unknown",
            Self::IsAway => "the store is away when a lock is to be made",
        }
    }

    /// What the store does instead; none if it does what it was asked to.
    pub(crate) async fn run(
        self,
        store: &EmbeddedStore,
        owed: &mut Owed,
        commands: &Commands<'_>,
    ) -> Option<Result<Numbers, HostError>> {
        if let Commands::Create { .. } = commands
            && let Some(error) = self.error()
        {
            return Some(Err(error));
        }
        let instead = match commands {
            Commands::Create { key, field, ttl } => self.create(store, owed, key, field, *ttl),
            Commands::AddAndLook {
                counter,
                by,
                key,
                field,
            } => {
                let add = [b"INCRBY", counter.as_ref(), by.to_string().as_bytes()]
                    .map(Bytes::copy_from_slice);
                self.add_and_look(store, owed, add, key, field).await
            }
            Commands::RemoveAndPublish { key, field, .. } => self.remove(store, key, field),
        };
        instead.map(Ok)
    }

    fn error(self) -> Option<HostError> {
        match self {
            Self::IsUnsure => Some(HostError::OutcomeUnknown("without a reason".to_owned())),
            Self::IsAway => Some(HostError::Unavailable("without a reason".to_owned())),
            _ => None,
        }
    }

    fn create(
        self,
        store: &EmbeddedStore,
        owed: &mut Owed,
        key: &[u8],
        field: &[u8],
        ttl: Duration,
    ) -> Option<Numbers> {
        match self {
            Self::Replaces => {
                number(store, &[b"DEL", key]);
                Some([make(store, key, field, ttl), 0])
            }
            Self::CountsFirst => {
                owed.insert(Bytes::copy_from_slice(field), ttl);
                Some([1, 0])
            }
            _ => None,
        }
    }

    async fn add_and_look(
        self,
        store: &EmbeddedStore,
        owed: &mut Owed,
        add: [Bytes; 3],
        key: &[u8],
        field: &[u8],
    ) -> Option<Numbers> {
        let [_, counter, by] = &add;
        let add_now = |store: &EmbeddedStore| number(store, &add.each_ref().map(AsRef::as_ref));
        match self {
            Self::CountsFirst => {
                let sum = add_now(store);
                sleep(LATER).await;
                let ttl = owed.remove(field)?;
                Some([sum, make(store, key, field, ttl)])
            }
            Self::TellsEarly => {
                let told =
                    integer(store, counter) + str::from_utf8(by).ok()?.parse::<i64>().ok()?;
                let has = number(store, &[b"HEXISTS", key, field]);
                let (store, add) = (store.clone(), add.clone());
                spawn_detached("late", async move {
                    sleep(LATER).await;
                    number(&store, &add.each_ref().map(AsRef::as_ref));
                });
                Some([told, has])
            }
            // The lock has ended a moment before.
            Self::NeverLooks => {
                number(store, &[b"HDEL", key, field]);
                Some([add_now(store), 1])
            }
            _ => None,
        }
    }

    fn remove(self, store: &EmbeddedStore, key: &[u8], field: &[u8]) -> Option<Numbers> {
        match self {
            Self::RemovesAnyGrant => {
                let removed = number(store, &[b"HDEL", key, field]);
                number(store, &[b"PUBLISH", &channel(key), b"0"]);
                // And again, as a release that comes late.
                let (store, key, owner) = (store.clone(), key.to_vec(), owner_of(field));
                spawn_detached("late", async move {
                    sleep(LATER).await;
                    remove_all_of(&store, &key, &owner);
                });
                Some([removed, 0])
            }
            Self::TellsNobody => Some([number(store, &[b"HDEL", key, field]), 0]),
            _ => None,
        }
    }
}

/// Removes what an owner holds, whatever grant it is.
fn remove_all_of(store: &EmbeddedStore, key: &[u8], owner: &str) {
    if let Ok(Value::Array(fields)) = store.command(&[b"HGETALL", key]) {
        for field in fields.iter().step_by(2) {
            if let Value::Bytes(field) = field
                && owner_of(field) == owner
            {
                number(store, &[b"HDEL", key, field]);
            }
        }
    }
}

fn channel(key: &[u8]) -> Vec<u8> {
    keys::channel(&String::from_utf8_lossy(key)).into_bytes()
}

/// What a counter shows; 0 if there is none.
fn integer(store: &EmbeddedStore, counter: &[u8]) -> i64 {
    match store.command(&[b"GET", counter]) {
        Ok(Value::Bytes(digits)) => str::from_utf8(&digits)
            .ok()
            .and_then(|it| it.parse().ok())
            .unwrap_or(0),
        _ => 0,
    }
}

fn owner_of(field: &[u8]) -> String {
    keys::owner_of(&String::from_utf8_lossy(field)).into_owned()
}

fn make(store: &EmbeddedStore, key: &[u8], field: &[u8], ttl: Duration) -> i64 {
    if number(store, &[b"EXISTS", key]) == 1 {
        return 0;
    }
    number(store, &[b"HSET", key, field, b"1"]);
    number(
        store,
        &[b"PEXPIRE", key, ttl.as_millis().to_string().as_bytes()],
    )
}

fn number(store: &EmbeddedStore, words: &[&[u8]]) -> i64 {
    match store.command(words) {
        Ok(Value::Int(number)) => number,
        _ => 0,
    }
}
