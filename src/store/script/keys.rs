//! Key and channel names, the only place that knows their form. Except for the record of a request
//! they are Redisson's.

use std::{borrow::Cow, fmt};

use bytes::Bytes;

use crate::host::Word;

/// A key as the parts that it is joined of, which are copied only once, into a call.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a>([&'a str; PARTS]);

/// The most parts that a key has.
const PARTS: usize = 7;

/// Names that start so are keys of the layout itself, ours or Redisson's.
const OUR_PREFIX: &str = "lockkeeper_";
const REDISSON_PREFIX: &str = "redisson_";
const REDISSON_KINDS: [&str; 9] = [
    "countdownlatch__channel__",
    "lock__channel:",
    "lock_queue:",
    "lock_timeout:",
    "lock_token:",
    "rwlock:",
    "sc:",
    "sortedset_lock:",
    "unlock_latch:",
];

/// What the key of a semaphore's leases ends in, and what the key of a read hold contains.
const LEASES_SUFFIX: &str = ":timeout";
const READ_HOLD_INFIX: &str = ":rwlock_timeout:";

/// What stands between a session id, which is a UUID, and the number of a grant.
const GRANT_MARK: &str = "#";
const SESSION_ID_CHARS: usize = 36;

/// What the field of a write hold ends in.
const WRITE_SUFFIX: &str = ":write";

/// The hash that holds the lock: the name itself.
pub fn lock(name: &str) -> Key<'_> {
    Key::whole(name)
}

/// The channel on which a release is announced.
pub fn channel(name: &str) -> String {
    channel_key(name).to_string()
}

/// The same as a word of a call.
pub(crate) fn channel_key(name: &str) -> Key<'_> {
    prefixed("redisson_lock__channel", name)
}

/// The channel on which a release of a read/write lock is announced.
pub fn rw_channel(name: &str) -> String {
    rw_channel_key(name).to_string()
}

/// The same as a word of a call.
pub(crate) fn rw_channel_key(name: &str) -> Key<'_> {
    prefixed("redisson_rwlock", name)
}

/// The channel that wakes one waiter of a fair lock.
pub fn fair_channel(name: &str, owner: &str) -> String {
    [&channel(name), ":", owner].concat()
}

/// The queue of a fair lock: a list of owners.
pub fn queue(name: &str) -> Key<'_> {
    prefixed("redisson_lock_queue", name)
}

/// When each owner in the queue counts as dead.
pub fn queue_deadlines(name: &str) -> Key<'_> {
    prefixed("redisson_lock_timeout", name)
}

/// Until when coordinators have vouched for the waiters that are theirs.
pub fn vouched_waiters(name: &str) -> Key<'_> {
    prefixed("lockkeeper_fair_waiters", name)
}

/// What the keys of all read holds begin with; an owner, `:rwlock_timeout:` and a number follow.
pub fn read_holds_base(name: &str) -> Key<'_> {
    tagged(name, [])
}

/// What the keys of an owner's read holds begin with; a number follows.
pub fn read_holds<'a>(name: &'a str, owner: &'a str) -> Key<'a> {
    tagged(name, [":", owner, ":rwlock_timeout"])
}

/// The readers of ours by the ends of their leases.
pub fn readers(name: &str) -> Key<'_> {
    prefixed("lockkeeper_readers", name)
}

/// The mark of a writer that waits.
pub fn writer_waiting(name: &str) -> Key<'_> {
    prefixed("lockkeeper_writer_waiting", name)
}

/// The field of an owner's write hold.
pub fn write_field(owner: &str) -> Key<'_> {
    Key::of([owner, WRITE_SUFFIX])
}

/// The owner, if the field is that of a write hold.
pub fn writer(field: &Bytes) -> Option<Bytes> {
    let owner = field.strip_suffix(WRITE_SUFFIX.as_bytes())?;
    Some(field.slice_ref(owner))
}

/// The field of a session's owner for one grant: the number of the grant stands behind the session
/// id, where no owner can put one. None if the owner is not in a session.
pub fn grant_field(owner: &str, grant: u64) -> Option<String> {
    let (session, label) = owner.split_once(':')?;
    let mut number = itoa::Buffer::new();
    Some([session, GRANT_MARK, number.format(grant), ":", label].concat())
}

/// The owner that a field belongs to: the field without the number of a grant.
pub fn owner_of(field: &str) -> Cow<'_, str> {
    let grant = field
        .split_at_checked(SESSION_ID_CHARS)
        .and_then(|(session, rest)| {
            let (number, label) = rest.strip_prefix(GRANT_MARK)?.split_once(':')?;
            let is_number = !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
            is_number.then_some((session, label))
        });
    match grant {
        Some((session, label)) => [session, ":", label].concat().into(),
        None => field.into(),
    }
}

/// The fencing counter.
pub fn counter(name: &str) -> Key<'_> {
    prefixed("redisson_lock_token", name)
}

/// The record of the first answer to a request id.
pub fn record<'a>(name: &'a str, request_id: &'a str) -> Key<'a> {
    prefixed("lockkeeper_request", name).and(request_id)
}

/// What the owner of a lock says of its hold. `lua/lib/note.lua` makes this key and the next one of
/// that of the fencing counter.
pub fn note(name: &str) -> Key<'_> {
    prefixed("lockkeeper_note", name)
}

/// The same for an owner that reads.
pub fn reader_note<'a>(name: &'a str, owner: &'a str) -> Key<'a> {
    prefixed("lockkeeper_reader_note", name).and(owner)
}

/// The record of an election, and the channel on which its changes are announced.
/// `lua/lib/token.lua` makes this key of that of the fencing counter.
pub fn election(name: &str) -> String {
    prefixed("lockkeeper_election", name).to_string()
}

/// The record of the last release by force.
pub fn forced(name: &str) -> Key<'_> {
    prefixed("lockkeeper_forced", name)
}

/// The holders that a message with this id has reached.
pub fn holders_reached<'a>(name: &'a str, id: &'a str) -> Key<'a> {
    prefixed("lockkeeper_holders", name).and(id)
}

/// The channel of messages to the coordinators of holders. No name can have it, and it is one of
/// those that the user of an older coordinator has the right to.
pub fn holders_channel(prefix: &str) -> String {
    channel(&[prefix, "lockkeeper_holders"].concat())
}

/// The owner that a field of a lock stands for: while a forced release waits for former holders, or
/// the lock is held at least until a time, the fields are marks of them.
pub fn former_owner(field: &str) -> &str {
    let forced = field.strip_prefix("lockkeeper_forced:");
    let marked = forced.or_else(|| field.strip_prefix("lockkeeper_least:"));
    let marked = marked.or_else(|| field.strip_prefix("lockkeeper_delay:"));
    marked.unwrap_or(field)
}

/// The name that a key belongs to, if the key is a name itself or the queue of a fair lock. Keys
/// that cannot be a name are passed over.
pub fn named_by(key: &[u8]) -> Option<String> {
    let key = str::from_utf8(key).ok()?;
    let name = match key.strip_prefix("redisson_lock_queue:") {
        None => key,
        Some(tagged) => tagged
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .filter(|name| !name.contains(['{', '}']))
            .unwrap_or(tagged),
    };
    (!name.is_empty() && refuse(name).is_none()).then(|| name.to_owned())
}

/// The leases of a semaphore's permits. (The semaphore and the latch are, as the lock, the name
/// itself.)
pub fn permit_leases(name: &str) -> Key<'_> {
    tagged(name, [LEASES_SUFFIX])
}

/// Whose the permits are that we have taken.
pub fn permit_owners(name: &str) -> Key<'_> {
    prefixed("lockkeeper_permits", name)
}

/// The channel on which free permits are announced.
pub fn permit_channel(name: &str) -> String {
    prefixed("redisson_sc", name).to_string()
}

/// What kind of counter the name is.
pub fn kind(name: &str) -> Key<'_> {
    prefixed("lockkeeper_kind", name)
}

/// The channel on which the opening of a latch is announced. Redisson adds braces here to every
/// name, also to one that has a hash tag.
pub fn latch_channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

/// The sessions of an identity that have ended.
pub fn ended_sessions(whose: &str) -> Key<'_> {
    prefixed("lockkeeper_ended", whose)
}

/// The waits of a session, or of an owner without one, that have this digest.
pub fn waits(prefix: &str, digest: &str) -> String {
    prefixed("lockkeeper_waits", &[prefix, digest].concat()).to_string()
}

/// The coordinators of names with this prefix.
pub fn coordinators(prefix: &str) -> String {
    prefixed("lockkeeper_coordinators", &[prefix, "fleet"].concat()).to_string()
}

/// A key that is never there.
pub fn never(prefix: &str) -> Key<'_> {
    Key::of([prefix, "lockkeeper_never"])
}

/// What is written for replicas to acknowledge. It says nothing and may go at any time.
pub fn replicated(prefix: &str) -> String {
    format!("{prefix}lockkeeper_replicated")
}

/// Channels that nobody listens to. A user that may publish on them may do so on those of locks and
/// of elections.
pub fn probes(prefix: &str) -> [String; 2] {
    let name = replicated(prefix);
    [channel(&name), election(&name)]
}

/// Why a name cannot be used, if so. Names with unbalanced braces would put the lock and its
/// channel into different slots of a cluster.
pub fn refuse(name: &str) -> Option<&'static str> {
    let why = refuse_reserved(name);
    if why.is_some() || !name.contains(['{', '}']) {
        return why;
    }
    if let Some(why) = refuse_alias(name) {
        return Some(why);
    }
    let mut depth = 0_usize;
    for byte in name.bytes() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => return Some("has a closing brace without an opening one"),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    if depth > 0 {
        return Some("has an opening brace without a closing one");
    }
    // Redis takes the text between the first `{` and the next `}` as the hash tag, and the whole
    // key if that is nothing.
    match name.split_once('{') {
        Some((_, rest)) if rest.starts_with('}') => Some("has an empty hash tag `{}`"),
        _ => None,
    }
}

/// Why the beginning of a name cannot be used, if so.
pub fn refuse_reserved(name: &str) -> Option<&'static str> {
    let is_redissons = |rest: &str| REDISSON_KINDS.iter().any(|kind| rest.starts_with(kind));
    let is_reserved = name.starts_with(OUR_PREFIX)
        || name.strip_prefix(REDISSON_PREFIX).is_some_and(is_redissons);
    is_reserved.then_some("starts with a prefix that is reserved for the lock's own keys")
}

/// Why a name cannot be used because its keys are those of another name, if so: Redisson's rule
/// puts braces around a name that has none.
fn refuse_alias(name: &str) -> Option<&'static str> {
    let inner = name.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    if inner.is_some_and(|inner| !inner.is_empty() && !inner.contains(['{', '}'])) {
        return Some("is a hash tag only, and shares keys with the name inside of it: use that");
    }
    let has_tag = name.contains('{');
    if has_tag && (name.ends_with(LEASES_SUFFIX) || name.contains(READ_HOLD_INFIX)) {
        return Some("is a key of the name before `:timeout` or `:rwlock_timeout:`");
    }
    None
}

// === impl Key ===

impl<'a> Key<'a> {
    fn of<const N: usize>(parts: [&'a str; N]) -> Self {
        let mut key = [""; PARTS];
        key[..N].copy_from_slice(&parts);
        Self(key)
    }

    /// The key that is this.
    pub(crate) fn whole(key: &'a str) -> Self {
        Self::of([key])
    }

    /// The same with a last part behind a colon.
    fn and(mut self, last: &'a str) -> Self {
        let [.., colon, end] = &mut self.0;
        (*colon, *end) = (":", last);
        self
    }

    /// The key as bytes, which are copied only if it has several parts.
    pub(crate) fn bytes(self) -> Cow<'a, [u8]> {
        let [whole, rest @ ..] = self.0;
        if rest.iter().all(|part| part.is_empty()) {
            return whole.as_bytes().into();
        }
        let mut bytes = Vec::with_capacity(self.0.iter().map(|part| part.len()).sum());
        self.write_to(&mut bytes);
        bytes.into()
    }

    /// The key as bytes of their own.
    pub fn to_bytes(&self) -> Bytes {
        self.bytes().into_owned().into()
    }
}

impl Word for Key<'_> {
    fn write_to(&self, buffer: &mut Vec<u8>) {
        let parts = self.0.iter().filter(|part| !part.is_empty());
        parts.for_each(|part| part.write_to(buffer));
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| f.write_str(part))
    }
}

/// The name as the hash tag that others of its keys begin with, and the rest of such a key.
fn tagged<'a, const N: usize>(name: &'a str, rest: [&'a str; N]) -> Key<'a> {
    let [open, close] = braces(name);
    let mut key = Key::of([open, name, close]);
    key.0[3..3 + N].copy_from_slice(&rest);
    key
}

fn prefixed<'a>(prefix: &'static str, name: &'a str) -> Key<'a> {
    let [open, close] = braces(name);
    Key::of([prefix, ":", open, name, close])
}

/// What makes a hash tag of a name. Redisson's rule: one that contains `{` is taken to have one.
fn braces(name: &str) -> [&'static str; 2] {
    if name.contains('{') {
        ["", ""]
    } else {
        ["{", "}"]
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
