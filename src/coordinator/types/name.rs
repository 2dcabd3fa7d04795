//! The name of a lock, a semaphore or a latch.

use std::sync::Arc;

use lockkeeper_store::script::keys;

use super::{Invalid, Limits, over};

/// A lock's name: not empty, within the limit, without control characters, safe as a cluster key.
/// In the store it carries the common prefix, as with Redisson's `NameMapper`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName {
    in_store: Arc<str>,
    /// Length of the prefix in bytes.
    prefix: usize,
}

// === impl LockName ===

impl LockName {
    /// The same, but it shares no memory with this one.
    pub(crate) fn apart(&self) -> Self {
        Self {
            in_store: Arc::from(&*self.in_store),
            prefix: self.prefix,
        }
    }

    /// Validates a name.
    pub fn parse(name: &str, limits: &Limits) -> Result<Self, Invalid> {
        let refuse = |why: String| Err(Invalid::new("name", why));
        if name.is_empty() {
            return refuse("must not be empty".to_owned());
        }
        if let Some(why) = over(name, limits.name_bytes_max) {
            return refuse(why);
        }
        let prefix = &limits.key_prefix;
        let (in_store, reserved) = if prefix.is_empty() {
            (Arc::from(name), None)
        } else {
            // A reserved prefix stays reserved, whether or not another prefix precedes it.
            let in_store = [prefix, name].concat();
            (in_store.into(), keys::refuse_reserved(name))
        };
        if let Some(why) = keys::refuse(&in_store).or(reserved) {
            return refuse(why.to_owned());
        }
        Ok(Self {
            in_store,
            prefix: prefix.len(),
        })
    }

    /// The name in the store.
    pub fn store_key(&self) -> &str {
        &self.in_store
    }

    /// The name for clients.
    pub fn public(&self) -> &str {
        &self.in_store[self.prefix..]
    }

    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.in_store)
    }
}

impl std::fmt::Display for LockName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.public())
    }
}
