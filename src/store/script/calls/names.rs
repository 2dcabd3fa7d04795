//! Which names are in use, and for what.

use std::collections::BTreeSet;

use futures::future::try_join_all;

use super::{host_scripts::HostScripts, partitions::grouped};
use crate::{
    host::{ScanCursor, words},
    script::{CallError, catalog, keys},
};

/// Names that one script looks at.
const NAMES_PER_CALL: usize = 100;

const LOCK: i64 = 1;
const READ_WRITE_LOCK: i64 = 2;
const SEMAPHORE: i64 = 3;
const LATCH: i64 = 4;

/// The kind of thing under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NameKind {
    /// A lock with one owner.
    Lock,
    /// A read/write lock.
    ReadWriteLock,
    /// A semaphore.
    Semaphore,
    /// A latch.
    Latch,
}

// === impl HostScripts ===

impl HostScripts {
    /// Some names that begin with this and may be in use, sorted, and where to go on. `work` bounds
    /// the keys that are looked at.
    pub(crate) async fn scan_names(
        &self,
        from: ScanCursor,
        prefix: &str,
        work: u32,
    ) -> Result<(Vec<String>, Option<ScanCursor>), CallError> {
        let scanned = self.host.scan(from, prefix.as_bytes(), work).await?;
        let names = scanned.keys.iter().filter_map(|key| keys::named_by(key));
        let names: BTreeSet<String> = names.filter(|name| name.starts_with(prefix)).collect();
        Ok((names.into_iter().collect(), scanned.next))
    }

    /// The kind of each of these names, if it is in use. Changes nothing.
    pub(crate) async fn kinds(&self, names: &[String]) -> Result<Vec<Option<NameKind>>, CallError> {
        let groups = grouped(names.iter().map(|name| self.partition(name)));
        let chunks = groups
            .into_values()
            .flat_map(|places| {
                let chunks = places.chunks(NAMES_PER_CALL).map(<[usize]>::to_vec);
                chunks.collect::<Vec<_>>()
            })
            .map(|places| async move {
                let keys = places.iter().flat_map(|at| {
                    let name = names[*at].as_str();
                    [
                        keys::lock(name),
                        keys::kind(name),
                        keys::permit_leases(name),
                        keys::queue(name),
                    ]
                });
                let kinds = self.eval(&catalog::NAME_KINDS, keys.collect(), words![]);
                kinds.await.map(|kinds| (places, kinds))
            });
        let mut found = vec![None; names.len()];
        for (places, kinds) in try_join_all(chunks).await? {
            for (at, kind) in places.into_iter().zip(kinds) {
                found[at] = kind_of(kind);
            }
        }
        Ok(found)
    }
}

fn kind_of(number: i64) -> Option<NameKind> {
    match number {
        LOCK => Some(NameKind::Lock),
        READ_WRITE_LOCK => Some(NameKind::ReadWriteLock),
        SEMAPHORE => Some(NameKind::Semaphore),
        LATCH => Some(NameKind::Latch),
        _ => None,
    }
}
