//! The identity of a caller.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use sha2::{Digest as _, Sha256};

/// A caller: the name in a certificate or a token, or anonymous.
#[derive(Clone, Default)]
pub struct Identity(Option<Arc<Named>>);

struct Named {
    name: Box<str>,
    mark: Box<str>,
}

/// The mark of anonymous callers; no digest looks like it.
const ANONYMOUS_MARK: &str = "-";

/// Digits of a mark: 128 bits, so that no two names with the same mark can be found.
const MARK_CHARS: usize = 32;

// === impl Identity ===

impl Identity {
    /// The name of anonymous callers in rules and logs.
    pub const ANONYMOUS: &'static str = "anonymous";

    /// The prefix of the names of a Unix-domain socket's peers.
    pub const UID_PREFIX: &'static str = "uid:";

    /// A caller without credentials.
    pub fn anonymous() -> Self {
        Self(None)
    }

    /// A caller whose name was verified; an empty name is anonymous.
    pub fn named(name: &str) -> Self {
        if name.is_empty() {
            return Self::anonymous();
        }
        let mut mark = hex::encode(Sha256::digest(name));
        mark.truncate(MARK_CHARS);
        Self(Some(Arc::new(Named {
            name: name.into(),
            mark: mark.into(),
        })))
    }

    /// A user of this machine.
    pub fn of_uid(uid: u32) -> Self {
        Self::named(&format!("{}{uid}", Self::UID_PREFIX))
    }

    /// A name from a token. Fails for names that are reserved for other kinds of callers, and for
    /// empty or blank ones.
    pub fn of_token(name: &str) -> Result<Self, &'static str> {
        if name.is_empty() || name.chars().any(|it| it.is_control() || it.is_whitespace()) {
            return Err("an identity must not be empty or contain blanks");
        }
        if name == Self::ANONYMOUS || name.starts_with(Self::UID_PREFIX) {
            return Err("an identity must not be `anonymous` or begin with `uid:`");
        }
        Ok(Self::named(name))
    }

    /// Its name; empty: anonymous.
    pub fn as_str(&self) -> &str {
        self.0.as_ref().map_or("", |named| &named.name)
    }

    /// Whether it has no name.
    pub fn is_anonymous(&self) -> bool {
        self.0.is_none()
    }

    /// A short stand-in for the name, which does not reveal it.
    pub fn mark(&self) -> &str {
        self.0.as_ref().map_or(ANONYMOUS_MARK, |named| &named.mark)
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Identity {}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_str() {
            "" => f.write_str(Self::ANONYMOUS),
            name => f.write_str(name),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}
