//! The words of the domain as types. Whoever holds a value knows that it was checked: the limits
//! live in the constructors.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{Hold, Mode, keys};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use uuid::Uuid;

use super::error::Invalid;

/// Bounds of everything that grows.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Put before every name in the store; clients do not see it. It stands here because every name
    /// is made under these limits.
    pub key_prefix: Arc<str>,
    /// Bytes of a lock name.
    pub name_bytes_max: usize,
    /// Bytes of an owner.
    pub owner_bytes_max: usize,
    /// Bytes of a request id.
    pub request_id_bytes_max: usize,
    /// Bytes of a client's name.
    pub client_name_bytes_max: usize,
    /// The shortest lease.
    pub lease_min: Duration,
    /// The longest lease.
    pub lease_max: Duration,
    /// Waits for one lock at this coordinator.
    pub waiters_per_lock_max: usize,
    /// Waits at this coordinator.
    pub waiters_max: usize,
    /// Waits of one session.
    pub waits_per_session_max: usize,
    /// Sessions at this coordinator.
    pub sessions_max: usize,
    /// Grants of one session.
    pub grants_per_session_max: usize,
    /// Locks that one request names.
    pub locks_per_request_max: usize,
}

/// A lock's name: not empty, within the limit, without control characters, safe as a cluster key.
/// In the store it has the prefix of all names before it, as with Redisson's `NameMapper`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName {
    in_store: Arc<str>,
    /// Bytes of the prefix.
    prefix: usize,
}

/// A session's id: a random UUID, known only to those who may act as the session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Arc<str>);

/// Who holds or wants a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The session it belongs to; none for a sessionless owner.
    pub session: Option<SessionId>,
    /// The owner within the session, or the sessionless owner.
    pub label: Arc<str>,
    field: Arc<str>,
    made: bool,
}

/// A client-made string that makes an operation safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

/// A time to live that the limits allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease(Duration);

/// One owner's hold on one lock.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The lock.
    pub name: LockName,
    /// How it is held.
    pub mode: Mode,
    /// Who holds it.
    pub owner: Owner,
    /// Holds not yet given back.
    pub hold_count: u32,
    /// Grows with every new grant of the name; a reader has that of the last writer.
    pub fencing_token: u64,
    /// Tells this grant from every other of the owner on this lock.
    pub serial: u64,
    /// Time to live, as of the answer.
    pub lease: Duration,
    /// Until when nobody else can hold the lock.
    pub safe_until: Instant,
    /// Whether the watchdog renews it.
    pub watched: bool,
    /// Replicas that have acknowledged it; 0 if that was not asked for.
    pub replica_acks: u32,
    /// Replicas that must acknowledge its renewals, whatever the configuration says.
    pub min_replica_acks: u32,
}

/// The part of a lease that is not relied on: 1 % and 2 ms, as the Redlock algorithm has it,
/// because clocks drift.
const DRIFT_DIVISOR: u32 = 100;
const DRIFT_MIN: Duration = Duration::from_millis(2);

/// Digits of a session's digest that are shown: enough to tell sessions apart.
const DIGEST_CHARS: usize = 16;

/// Stands between a caller's mark and what is the caller's.
const MARK_END: &str = "/";

// === impl LockName ===

impl LockName {
    /// Checks a name.
    pub fn parse(name: &str, limits: &Limits) -> Result<Self, Invalid> {
        let refuse = |why: String| Err(Invalid::new("name", why));
        if name.is_empty() {
            return refuse("must not be empty".to_owned());
        }
        if let Some(why) = over(name, limits.name_bytes_max) {
            return refuse(why);
        }
        let prefix = &limits.key_prefix;
        // A reserved prefix is one whether or not another one comes before it.
        let in_store: Arc<str> = if prefix.is_empty() {
            name.into()
        } else {
            [prefix, name].concat().into()
        };
        if let Some(why) = keys::refuse(&in_store).or_else(|| keys::refuse_reserved(name)) {
            return refuse(why.to_owned());
        }
        Ok(Self {
            in_store,
            prefix: prefix.len(),
        })
    }

    /// The name as the store has it.
    pub fn as_str(&self) -> &str {
        &self.in_store
    }

    /// The name as clients have it.
    pub fn told(&self) -> &str {
        &self.in_store[self.prefix..]
    }

    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.in_store)
    }
}

impl std::fmt::Display for LockName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.told())
    }
}

// === impl SessionId ===

impl SessionId {
    /// A new session.
    pub fn random() -> Self {
        Self(Uuid::new_v4().to_string().into())
    }

    /// Accepts any UUID in the form it was given out; whether there is such a session is another
    /// question.
    pub fn parse(id: &str) -> Option<Self> {
        Uuid::try_parse(id)
            .ok()
            .filter(|uuid| uuid.to_string() == id)
            .map(|_| Self(id.into()))
    }

    /// The id. A credential: it must not be logged or shown to others.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What others may see of the id.
    pub fn digest(&self) -> String {
        digest(&self.0)
    }
}

// === impl Owner ===

impl Owner {
    /// The owner of requests in a session that name none.
    pub const DEFAULT_LABEL: &'static str = "0";

    /// An owner within a session.
    pub fn in_session(session: SessionId, label: &str, limits: &Limits) -> Result<Self, Invalid> {
        let label = if label.is_empty() {
            Self::DEFAULT_LABEL
        } else {
            label
        };
        let label = Self::check(label, limits)?;
        let field = [session.as_str(), ":", &label].concat().into();
        Ok(Self {
            session: Some(session),
            label,
            field,
            made: false,
        })
    }

    /// An owner without a session.
    pub fn sessionless(label: &str, limits: &Limits) -> Result<Self, Invalid> {
        if label.is_empty() {
            return Err(Invalid::new(
                "owner",
                "must not be empty without a session_id",
            ));
        }
        let label = Self::check(label, limits)?;
        Ok(Self {
            session: None,
            field: Arc::clone(&label),
            label,
            made: false,
        })
    }

    /// A new owner for a sessionless request that names none: the same one for a repeat of the
    /// request, else a random one.
    pub fn made(name: &LockName, request_id: Option<&RequestId>) -> Self {
        let uuid = match request_id {
            None => Uuid::new_v4(),
            Some(id) => {
                let digest = Sha256::new()
                    .chain_update(name.as_str())
                    .chain_update([0])
                    .chain_update(id.as_str())
                    .finalize();
                let mut bytes = [0; 16];
                bytes.copy_from_slice(&digest[..16]);
                uuid::Builder::from_custom_bytes(bytes).into_uuid()
            }
        };
        let label: Arc<str> = uuid.to_string().into();
        Self {
            session: None,
            field: Arc::clone(&label),
            label,
            made: true,
        }
    }

    /// An owner as the store shows it, which may be a Redisson client's.
    pub fn from_field(field: &str) -> Self {
        let parts = field.split_once(':');
        let session = parts.and_then(|(id, label)| Some((SessionId::parse(id)?, label)));
        match session {
            Some((session, label)) => Self {
                session: Some(session),
                label: label.into(),
                field: field.into(),
                made: false,
            },
            None => Self {
                session: None,
                label: field.into(),
                field: field.into(),
                made: false,
            },
        }
    }

    /// The same owner as one that only callers with this mark can be: a sessionless owner is no
    /// secret to those who see it in the store.
    #[must_use]
    pub fn marked(self, mark: &str) -> Self {
        if self.session.is_some() {
            return self;
        }
        let field = [mark, MARK_END, &self.label].concat().into();
        Self { field, ..self }
    }

    /// What a caller with this mark calls the owner, if it is one of those that only such a caller
    /// can be.
    pub fn label_under(&self, mark: &str) -> Option<&str> {
        self.field.strip_prefix(mark)?.strip_prefix(MARK_END)
    }

    /// What others may see of an owner.
    pub fn digest(&self) -> String {
        digest(&self.field)
    }

    /// What stands in the store for this owner.
    pub fn field(&self) -> &str {
        &self.field
    }

    pub(crate) fn shared_field(&self) -> Arc<str> {
        Arc::clone(&self.field)
    }

    /// Whether nobody else can be this owner, because the server has just made it.
    pub(crate) fn is_new(&self) -> bool {
        self.made
    }

    /// Whether the coordinator knows what the owner holds: all of it is in its session, or it has
    /// just been made.
    pub(crate) fn holds_are_known(&self) -> bool {
        self.session.is_some() || self.made
    }

    /// `mode` is a field of Redisson's read/write lock, and `:write` marks its writers.
    fn check(label: &str, limits: &Limits) -> Result<Arc<str>, Invalid> {
        if let Some(why) = over(label, limits.owner_bytes_max) {
            return Err(Invalid::new("owner", why));
        }
        if label == "mode" || label.ends_with(":write") {
            return Err(Invalid::new(
                "owner",
                "must not be `mode` or end in `:write`",
            ));
        }
        Ok(label.into())
    }
}

// === impl Grant ===

impl Grant {
    /// What it is to the scripts.
    pub(crate) fn hold(&self) -> Hold<'_> {
        Hold::new(self.name.as_str(), self.mode, self.owner.field())
    }
}

// === impl RequestId ===

impl RequestId {
    /// None if empty.
    pub fn parse(id: &str, limits: &Limits) -> Result<Option<Self>, Invalid> {
        if let Some(why) = over(id, limits.request_id_bytes_max) {
            return Err(Invalid::new("request_id", why));
        }
        Ok((!id.is_empty()).then(|| Self(id.into())))
    }

    /// The same id as one that only callers with this mark can name: another who uses it by chance,
    /// or has seen it, is not told the first answer.
    #[must_use]
    pub fn marked(self, mark: &str) -> Self {
        Self([mark, MARK_END, &self.0].concat().into())
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl Lease ===

impl Lease {
    /// Checks a lease.
    pub fn new(lease: Duration, limits: &Limits) -> Result<Self, Invalid> {
        Self::named("lease", lease, limits)
    }

    /// Checks a time to live that a request calls by another name.
    pub fn named(field: &'static str, lease: Duration, limits: &Limits) -> Result<Self, Invalid> {
        if lease < limits.lease_min || lease > limits.lease_max {
            let (min, max) = (limits.lease_min, limits.lease_max);
            return Err(Invalid::new(
                field,
                format!("must be from {min:?} to {max:?}"),
            ));
        }
        Ok(Self(lease))
    }

    /// The time to live.
    pub fn get(self) -> Duration {
        self.0
    }
}

/// What others may see of a credential.
fn digest(credential: &str) -> String {
    let mut digest = hex::encode(Sha256::digest(credential.as_bytes()));
    digest.truncate(DIGEST_CHARS);
    digest
}

/// Until when a lease that the store granted at some moment after `sent_at` is surely not over.
pub(crate) fn safe_until(sent_at: Instant, lease: Duration) -> Instant {
    sent_at + lease.saturating_sub(lease / DRIFT_DIVISOR + DRIFT_MIN)
}

/// Why a text is refused: too long, or with control characters, which would garble logs and
/// terminals.
pub(crate) fn over(text: &str, bytes_max: usize) -> Option<String> {
    if text.len() > bytes_max {
        Some(format!(
            "must not be longer than {bytes_max} bytes, has {}",
            text.len()
        ))
    } else if text.chars().any(char::is_control) {
        Some("must not contain control characters".to_owned())
    } else {
        None
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn limits() -> Limits {
        Limits {
            key_prefix: "".into(),
            name_bytes_max: 16,
            owner_bytes_max: 8,
            request_id_bytes_max: 8,
            client_name_bytes_max: 8,
            lease_min: Duration::from_millis(100),
            lease_max: Duration::from_secs(60),
            waiters_per_lock_max: 4,
            waiters_max: 8,
            waits_per_session_max: 4,
            sessions_max: 4,
            grants_per_session_max: 4,
            locks_per_request_max: 4,
        }
    }

    #[test]
    fn names_are_checked() {
        for good in ["a", "a b", "ünïcode", "{a}:b", "0123456789abcdef"] {
            assert!(LockName::parse(good, &limits()).is_ok(), "{good}");
        }
        for bad in ["", "0123456789abcdefg", "a\0b", "a\n", "{a", "a}", "{}"] {
            assert_eq!(
                LockName::parse(bad, &limits()).unwrap_err().field,
                "name",
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_prefix_is_put_before_names_and_never_told() {
        let under = |prefix: &str| Limits {
            key_prefix: prefix.into(),
            ..limits()
        };
        let name = LockName::parse("0123456789abcdef", &under("app:")).unwrap();
        assert_eq!(name.as_str(), "app:0123456789abcdef");
        assert_eq!(
            (name.told(), name.to_string()),
            ("0123456789abcdef", name.told().to_owned())
        );
        for bad in ["a}", "{}", "redisson_sc:{a}"] {
            assert!(LockName::parse(bad, &under("app:")).is_err(), "{bad}");
        }
        // What counts is the name in the store.
        assert!(LockName::parse("{}", &under("{app}:")).is_ok());
        assert!(LockName::parse("a", &under("{app")).is_err());
    }

    #[test]
    fn owners_cannot_pass_for_fields_of_another_kind() {
        for bad in ["mode", "a:write", "123456789", "a\tb", ""] {
            assert_eq!(
                Owner::sessionless(bad, &limits()).unwrap_err().field,
                "owner",
                "{bad:?}"
            );
        }
        let session = SessionId::random();
        let owner = Owner::in_session(session.clone(), "", &limits()).unwrap();
        assert_eq!(owner.field(), format!("{}:0", session.as_str()));
        assert_eq!(Owner::from_field(owner.field()).session, Some(session));
        assert_eq!(Owner::from_field("ci-42").session, None);
    }

    #[test]
    fn a_marked_owner_is_one_that_only_its_caller_can_name() {
        let owner = Owner::sessionless("ci/42", &limits()).unwrap();
        let marked = owner.clone().marked("aa");
        assert_eq!(
            (marked.field(), marked.label.as_ref()),
            ("aa/ci/42", "ci/42")
        );
        assert_eq!(marked.label_under("aa"), Some("ci/42"));
        assert_eq!(marked.label_under("a"), None);
        assert_eq!(
            Owner::from_field("aa/ci/42").label_under("aa"),
            Some("ci/42")
        );
        assert_eq!(owner.label_under("aa"), None);
        assert_ne!(marked.digest(), owner.marked("bb").digest());
        let in_session = Owner::in_session(SessionId::random(), "", &limits()).unwrap();
        assert_eq!(in_session.clone().marked("aa"), in_session);
    }

    #[test]
    fn a_repeat_of_a_request_makes_the_same_owner() {
        let name = LockName::parse("a", &limits()).unwrap();
        let request = RequestId::parse("r", &limits()).unwrap();
        let made = || Owner::made(&name, request.as_ref());
        assert_eq!(made().field(), made().field());
        assert_ne!(
            Owner::made(&name, None).field(),
            Owner::made(&name, None).field()
        );
    }

    #[test]
    fn session_ids_are_taken_only_in_the_form_they_were_given() {
        let id = SessionId::random();
        assert_eq!(SessionId::parse(id.as_str()), Some(id.clone()));
        assert_eq!(SessionId::parse(&id.as_str().to_uppercase()), None);
        assert_eq!(SessionId::parse("guess"), None);
    }
}
