//! Owners, and the ids that make a repeat of a request recognizable.

use std::sync::Arc;

use lockkeeper_store::script::keys;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{Invalid, Limits, LockName, SessionId, over, session::digest};

/// The holder or waiter of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Its session; none for a sessionless owner.
    pub session: Option<SessionId>,
    /// The owner within the session, or the sessionless owner.
    pub label: Arc<str>,
    field: Arc<str>,
    made: bool,
}

/// A client-made string that makes an operation safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

/// Separates a caller's mark from the caller's own text.
const MARK_END: &str = "/";

/// Ends an id before what tells a set of locks from others. Ids have no control characters.
const SET_BEGIN: &str = "\n/";

// === impl Owner ===

impl Owner {
    /// The owner of requests in a session that name none.
    pub const DEFAULT_LABEL: &'static str = "0";

    /// The same, but it shares no text with this one.
    pub(crate) fn apart(&self) -> Self {
        Self {
            session: self.session.as_ref().map(SessionId::apart),
            label: Arc::from(&*self.label),
            field: Arc::from(&*self.field),
            made: self.made,
        }
    }

    /// The owner of requests in this session that name none.
    pub fn of_session(session: SessionId) -> Self {
        Self::labelled(session, Arc::from(Self::DEFAULT_LABEL))
    }

    /// An owner within a session.
    pub fn in_session(session: SessionId, label: &str, limits: &Limits) -> Result<Self, Invalid> {
        if label.is_empty() {
            return Ok(Self::of_session(session));
        }
        Ok(Self::labelled(session, Self::check(label, limits)?))
    }

    fn labelled(session: SessionId, label: Arc<str>) -> Self {
        let field = [session.as_str(), ":", &label].concat().into();
        Self {
            session: Some(session),
            label,
            field,
            made: false,
        }
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

    /// A new owner for a sessionless request that names none: the same for a repeat of the request,
    /// otherwise random.
    pub fn made(name: &LockName, request_id: Option<&RequestId>) -> Self {
        let uuid = match request_id {
            None => Uuid::new_v4(),
            Some(id) => {
                let digest = Sha256::new()
                    .chain_update(name.store_key())
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

    /// An owner from its field in the store, possibly that of one grant, or a Redisson client's; or
    /// the former one of a lock that was released by force.
    pub fn from_field(field: &str) -> Self {
        let field = &*keys::owner_of(keys::former_owner(field));
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

    /// The owner restricted to callers with this mark: a sessionless owner is no secret to those
    /// who see it in the store.
    #[must_use]
    pub fn marked(self, mark: &str) -> Self {
        if self.session.is_some() {
            return self;
        }
        let field = [mark, MARK_END, &self.label].concat().into();
        Self { field, ..self }
    }

    /// The label of the owner for a caller with this mark; none if it is restricted to other
    /// callers.
    pub fn label_under(&self, mark: &str) -> Option<&str> {
        self.field.strip_prefix(mark)?.strip_prefix(MARK_END)
    }

    /// The digest that others may see.
    pub fn digest(&self) -> String {
        digest(&self.field)
    }

    /// The owner's field in the store.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The field of a grant of its own; none without a session.
    pub(crate) fn grant_field(&self, grant: u64) -> Option<Arc<str>> {
        self.session.as_ref()?;
        keys::grant_field(&self.field, grant).map(Arc::from)
    }

    pub(crate) fn shared_field(&self) -> Arc<str> {
        Arc::clone(&self.field)
    }

    /// Whether no other caller can be this owner, because the server has just made it.
    pub(crate) fn is_new(&self) -> bool {
        self.made
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

// === impl RequestId ===

impl RequestId {
    /// None if empty.
    pub fn parse(id: &str, limits: &Limits) -> Result<Option<Self>, Invalid> {
        if let Some(why) = over(id, limits.request_id_bytes_max) {
            return Err(Invalid::new("request_id", why));
        }
        Ok((!id.is_empty()).then(|| Self(id.into())))
    }

    /// The id restricted to callers with this mark: another caller, by chance or having seen it,
    /// does not get the first answer.
    #[must_use]
    pub fn marked(self, mark: &str) -> Self {
        Self([mark, MARK_END, &self.0].concat().into())
    }

    /// The same id for one of several locks. `set` tells these locks from others.
    pub(crate) fn of_set(&self, set: &str) -> Self {
        Self([self.as_str(), SET_BEGIN, set].concat().into())
    }

    /// What tells the locks that it is for from others, behind a slash; of one lock, nothing.
    pub(crate) fn set(&self) -> &str {
        self.0.find(SET_BEGIN).map_or("/", |at| &self.0[at + 1..])
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        self.0.split(SET_BEGIN).next().unwrap_or_default()
    }
}
