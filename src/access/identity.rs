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

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher as _, RandomState};

    use super::*;

    #[test]
    fn a_name_tells_callers_apart_and_its_mark_does_not_reveal_it() {
        let [web, again, api] = ["web", "web", "api"].map(Identity::named);
        assert!(web == again && web != api);
        assert_eq!(web.mark(), again.mark());
        assert_ne!(web.mark(), api.mark());
        assert_eq!(web.mark().len(), MARK_CHARS);
        assert!(!web.mark().contains("web"));
        assert_eq!(web.to_string(), "web");
        let hasher = RandomState::new();
        assert_eq!(hasher.hash_one(&web), hasher.hash_one(&again));
        assert_ne!(hasher.hash_one(&web), hasher.hash_one(&api));
    }

    #[test]
    fn who_has_no_name_is_anonymous() {
        let anonymous = Identity::named("");
        assert!(anonymous.is_anonymous() && anonymous == Identity::anonymous());
        assert!(!Identity::named("web").is_anonymous());
        assert_eq!(anonymous.as_str(), "");
        assert_eq!(anonymous.to_string(), "anonymous");
        assert_eq!(anonymous.mark(), ANONYMOUS_MARK);
        assert_eq!(Identity::of_uid(1000).as_str(), "uid:1000");
    }

    #[test]
    fn a_token_cannot_take_the_name_of_another_kind_of_caller() {
        for bad in ["", "a b", "a\tb", "a\u{7}b", "anonymous", "uid:0"] {
            assert!(Identity::of_token(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            Identity::of_token("anonymous2").unwrap().as_str(),
            "anonymous2"
        );
    }
}
