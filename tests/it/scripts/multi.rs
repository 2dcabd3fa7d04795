//! Several locks in one script: all or none, each as it would be alone, and undone together.

use std::time::Duration;

use lockkeeper_store::script::{
    AcquiredAll, Attempt, AttemptAll, CallError, Member, Mode, Refusal, ReleasedMember, Scripts,
};

use super::requests::members;
use super::{
    lock_story::check,
    lock_words::{mode, name_of, note_shown, refusal},
    mask::Mask,
    story::{option, rounded, rounded_or_endless, time},
};

/// A step about several locks: `acquire_all x 100s lock lock2:read:1`. Behind a lock stand its mode
/// and the holds that are known.
pub(super) struct All<'a> {
    owner: &'a str,
    lease: Duration,
    locks: Vec<Member<'a>>,
    attempt: Attempt<'a>,
    refusal: Refusal,
    /// Locks that an undo is to leave alone.
    spared: Vec<&'a str>,
}

impl<'a> All<'a> {
    pub(super) fn parse(owner: &'a str, words: &[&'a str], attempt: Attempt<'a>) -> Self {
        let locks = words.iter().filter(|word| word.starts_with("lock"));
        let timed = words.iter().find(|word| word.ends_with("00s"));
        Self {
            owner,
            lease: timed.map_or(Duration::ZERO, |word| time(word)),
            locks: locks.map(|word| member(word, attempt.serial)).collect(),
            attempt,
            refusal: refusal(words),
            spared: option(words, "spare").map(name_of).into_iter().collect(),
        }
    }

    pub(super) async fn run(
        &self,
        verb: &str,
        scripts: &Scripts,
        mask: &mut Mask,
    ) -> Result<String, CallError> {
        let members = members(self.owner, &self.locks);
        let attempt = AttemptAll {
            record: self.attempt.request_id.unwrap_or(self.attempt.attempt),
            attempt: self.attempt.attempt,
            fresh_serial: self.attempt.fresh_serial,
            note: self.attempt.note,
        };
        match verb {
            "acquire_all" => {
                let acquired = scripts.acquire_all(members, self.lease, attempt, self.refusal);
                Ok(shown(acquired.await?, mask))
            }
            "release_all" => {
                let leases = vec![self.lease; self.locks.len()];
                let id = self.attempt.request_id;
                let released = scripts.release_all(members, &leases, id).await?;
                Ok(released
                    .iter()
                    .map(given_back)
                    .collect::<Vec<_>>()
                    .join(", "))
            }
            "undo_all" => {
                let undo = |at: usize| !self.spared.contains(&self.locks[at].name);
                let undone = scripts.undo_all(members, attempt, undo).await?;
                Ok(undone.to_string())
            }
            _ => panic!("no such step: {verb}"),
        }
    }
}

fn member(word: &str, serial: Option<u64>) -> Member<'_> {
    let mut parts = word.split(':');
    Member {
        name: name_of(parts.next().unwrap()),
        mode: parts.next().map_or(Mode::Exclusive, mode),
        known_holds: parts.next().map(|holds| holds.parse().unwrap()),
        serial,
    }
}

fn shown(acquired: AcquiredAll, mask: &mut Mask) -> String {
    match acquired {
        AcquiredAll::Granted { grants, repeated } => {
            let each = grants.iter().map(|grant| {
                let token = mask.number(grant.token.try_into().unwrap());
                format!("{} {token} {}", grant.hold_count, rounded(grant.lease))
            });
            let verb = if repeated { "repeated" } else { "granted" };
            format!("{verb} {}", each.collect::<Vec<_>>().join(", "))
        }
        AcquiredAll::Busy {
            which,
            remaining,
            note,
        } => {
            let left = rounded_or_endless(remaining);
            format!("busy at {which} {left}{}", note_shown(note.as_deref()))
        }
        AcquiredAll::Refused { which, why } => format!("refused at {which} {why:?}"),
    }
}

fn given_back(member: &ReleasedMember) -> String {
    let ReleasedMember { left, held, lease } = member;
    match left {
        Ok(left) => format!("done {left}, now {held} {}", rounded(*lease)),
        Err(why) if *held == 0 => format!("{why:?}"),
        Err(why) => format!("{why:?}, now {held}"),
    }
}

tests! { #[tokio::test] fn multi() = check(ACQUIRE), check(RELEASE), check(UNDO); }

const ACQUIRE: &str = "
locks of mixed modes, each as it would be alone and with a token of its own
    seeded
    acquire lock4 100s on=lock4
    acquire_all x 100s lock lock2:write lock3:read fresh=7
      => granted 1 t1 100s, 1 t1 100s, 1 t0 100s
    HGETALL lock => {x=1}
    HGETALL lock2 => {mode=write x:write=1}
    HGETALL lock3 => {mode=read x=1}
    HMGET record:a op answer => {acquire_all=t1 t1 7}
    PTTL record:a => 100s
    GET counter3 => t0
one that is held by another: none is taken, and the answer names it
    acquire y 200s on=lock2
    acquire_all x 100s lock lock2 lock3 => busy at 1 200s
    state => lock2{y=1}/200s counter2=T1/100000s
    DEL lock2
    acquire y 300s on=lock3 mode=read
    acquire_all x 100s lock lock2 lock3 => refused at 2 WrongKind
    acquire_all x 100s lock lock2 lock3:write => busy at 2 300s
    acquire_all x 100s lock lock2 lock3:read known=1
    EXISTS lock lock2 lock3 => 3
the answer names the first of several that are held; one without a time to live is held too
    HSET lock2 y 1
    HSET lock3 y 1
    acquire_all x 100s lock lock2 lock3 => busy at 1 endless
    EXISTS lock => 0
what the owner holds already counts up
    seeded
    acquire x 300s => granted 1 t1 300s
    acquire_all x 100s lock lock2 => granted 2 t1 300s, 1 t1 100s
    acquire_all x 200s lock:sole:2 lock2:sole:1 attempt=b => granted 3 t1 300s, 2 t1 200s
    acquire_all x 200s lock:sole:0 lock2:sole:2 attempt=c => busy at 0 300s
a repeat gets the first answer, a later attempt cannot be undone by the first any more
    seeded
    acquire_all x 100s lock lock2:read request=r1 attempt=a1 fresh=7
      => granted 1 t1 100s, 1 t0 100s
    acquire_all x 100s lock lock2:read request=r1 attempt=a2 fresh=8
      => repeated 1 t1 100s, 1 t0 100s
    undo_all x lock lock2:read request=r1 attempt=a1 => false
    undo_all x lock lock2:read request=r1 attempt=a2 => false
    HGETALL lock => {x=1}
    release_all x 100s lock
    heard => 0
    acquire_all x 100s lock lock2:read request=r1 attempt=a3 => error RequestOver
a request id is that of one call: its locks, its modes, its owner
    acquire_all x 100s lock lock2 request=r1
    acquire_all x 100s lock lock2:read request=r1 => refused at 1 WrongKind
    acquire_all x 100s lock request=r1 => error RequestIdReused
    acquire x 100s request=r1 => error RequestIdReused
    release x 100s request=r1 => error RequestIdReused
    release_all x 100s lock lock2 request=r1 => error RequestIdReused
    acquire x 100s request=r2
    acquire_all x 100s lock lock2 request=r2 => error RequestIdReused
    HGETALL lock => {x=2}
a refusal is recorded if it is an answer, and then a wait is another request
    acquire y 200s on=lock2
    acquire_all x 100s lock lock2 request=r1 recorded => busy at 1 200s
    DEL lock2
    acquire_all x 100s lock lock2 request=r1 recorded => busy at 1 200s
    acquire_all x 100s lock lock2 request=r1 waits => error RequestIdReused
    EXISTS lock => 0
a writer that waits for readers holds new ones back
    seeded
    acquire y 100s mode=read
    acquire_all x 100s lock:write lock2 => busy at 0 100s
    EXISTS writer_waiting => 0
    acquire_all x 100s lock:write lock2 waits => busy at 0 100s
    EXISTS writer_waiting => 1
    release y 100s mode=read
    heard => 0
    acquire z 100s mode=read => busy 100s
    acquire_all x 100s lock:write lock2 waits => granted 1 t1 100s, 1 t1 100s
    EXISTS writer_waiting => 0
a reader cannot write before it releases, at any place, even if another lock is busy
    acquire y 100s on=lock
    acquire x 100s mode=read on=lock2
    acquire_all x 100s lock lock2:write => refused at 1 SelfDeadlock
    acquire_all x 100s lock3 lock2:read => granted 1 T2 100s, 2 0 100s
a key of another kind is an error and changes nothing
    SET lock2 a
    acquire_all x 100s lock lock2 => refused at 1 WrongKind
    acquire_all x 100s lock lock2:read => refused at 1 WrongKind
    acquire_all x 100s lock lock2:write => refused at 1 WrongKind
    DEL lock2
    SET counter2 many
    acquire_all x 100s lock lock2 => refused at 1 WrongKind
    state => counter2=many/endless
out of memory: none is taken
    full
    acquire_all x 100s lock lock2 => error OutOfMemory
    state => nothing
";

const RELEASE: &str = "
all are given back, and waiters of each are woken as of that mode
    acquire_all x 100s lock lock2:write lock3:read
    release_all x 100s lock lock2:write lock3:read
      => done 0, now 0 100s, done 0, now 0 100s, done 0, now 0 0s
    heard => 0 1 0
    EXISTS lock lock2 lock3 => 0
one that is not held does not keep the others
    acquire x 100s
    acquire y 100s on=lock2
    release_all x 100s lock lock2 lock3 => done 0, now 0 100s, HeldByAnother, NeverHeld
    heard => 0
    state => lock2{y=1}/100s counter=T1/100000s counter2=T2/100000s
none is held: nothing is recorded
    acquire y 100s on=lock2
    release_all x 100s lock lock2 request=r1 => NeverHeld, HeldByAnother
    EXISTS record:r1 => 0
a repeat gets the first answer, and what is held now
    acquire_all x 200s lock lock2
    acquire x 200s
    acquire y 100s on=lock3
    release_all x 100s lock lock2 lock3 request=r1
      => done 1, now 1 200s, done 0, now 0 200s, HeldByAnother
    heard => 0
    acquire x 300s on=lock2
    DEL lock3
    acquire x 300s on=lock3
    release_all x 100s lock lock2 lock3 request=r1
      => done 1, now 1 200s, done 0, now 1 300s, HeldByAnother, now 1
    release_all x 100s lock lock2 request=r1 => error RequestIdReused
    release_all y 100s lock lock2 lock3 request=r1 => error RequestIdReused
that a lock is fair is no difference to a repeat, but wakes the first of its queue
    acquire x 100s mode=fair
    acquire y 100s mode=fair waits
    acquire x 100s on=lock2
    release_all x 100s lock:fair lock2 request=r1 => done 0, now 0 100s, done 0, now 0 100s
    heard => 0:y 0
    release_all x 100s lock lock2 request=r1 => done 0, now 0 0s, done 0, now 0 0s
a newer grant than the one to give back stays
    acquire x 100s
    acquire x 100s on=lock2 mode=read fresh=7
    release_all x 100s lock lock2:read serial=7 => Expired, done 0, now 0 0s
    heard => 0
    EXISTS lock => 1
a key of another kind is an error, and nothing is given back
    acquire x 100s
    SET lock2 a
    release_all x 100s lock lock2 => error WrongKind
    HGETALL lock => {x=1}
out of memory: giving back works
    acquire_all x 100s lock lock2:read lock3:write
    acquire_all x 100s lock lock2:read lock3:write attempt=b
    full
    release_all x 100s lock lock2:read lock3:write
      => done 1, now 1 100s, done 1, now 1 100s, done 1, now 1 100s
    release_all x 100s lock lock2:read lock3:write request=r1
      => done 0, now 0 100s, done 0, now 0 0s, done 0, now 0 100s
    heard => 0 0 1
";

const UNDO: &str = "
by record: one hold of each; again there is nothing to undo
    acquire x 100s
    acquire_all x 100s lock lock2:read lock3:write request=r1 attempt=a1
    undo_all x lock lock2:read lock3:write request=r1 attempt=a2 => false
    undo_all x lock lock2:read lock3:write request=r1 attempt=a1 => true
    heard => 0 1
    undo_all x lock lock2:read lock3:write request=r1 attempt=a1 => false
    HGETALL lock => {x=1}
    EXISTS lock2 lock3 record:r1 => 0
by record: a grant that has ended, and another's, are left alone
    acquire_all x 100s lock lock2 lock3 request=r1 attempt=a1
    DEL lock lock2
    acquire x 100s
    acquire y 100s on=lock2
    undo_all x lock lock2 lock3 request=r1 attempt=a1 => true
    heard => 0
    HGETALL lock => {x=1}
    HGETALL lock2 => {y=1}
    EXISTS lock3 => 0
by record: one that is spared stays
    acquire_all x 100s lock lock2 lock3 request=r1 attempt=a1
    undo_all x lock lock2 lock3 request=r1 attempt=a1 spare=lock2 => true
    heard => 0 0
    HGETALL lock2 => {x=1}
    EXISTS lock lock3 => 0
by record: it never ran, or was refused
    undo_all x lock lock2 request=r1 attempt=a1 => false
    acquire y 100s on=lock2
    acquire_all x 100s lock lock2 request=r1 attempt=a1 recorded => busy at 1 100s
    acquire x 100s
    undo_all x lock lock2 request=r1 attempt=a1 => true
    HGETALL lock => {x=1}
    EXISTS record:r1 => 0
by record: that of another operation
    acquire x 100s request=r1 attempt=a1
    undo_all x lock lock2 request=r1 attempt=a1 => false
    acquire_all x 100s lock lock2 request=r2 attempt=a2
    undo x request=r2 attempt=a2 => false
    HGETALL lock => {x=2}
without a record: down to the holds that are known
    acquire_all x 100s lock lock2
    acquire_all x 100s lock lock2 attempt=b
    DEL record:a record:b
    undo_all x lock:sole:1 lock2 attempt=b => true
    undo_all x lock:sole:1 lock2 attempt=b => false
    HGETALL lock => {x=1}
    HGETALL lock2 => {x=2}
    undo_all x lock:sole:0 lock2:sole:0 serial=1 attempt=b => false
    undo_all x lock:sole:0 lock2:sole:0 attempt=b => true
    heard => 0 0
a key of another kind is an error, and nothing is undone
    acquire_all x 100s lock lock2 request=r1 attempt=a1
    DEL lock2
    SET lock2 a
    undo_all x lock lock2 request=r1 attempt=a1 => error WrongKind
    HGETALL lock => {x=1}
out of memory: undoing works
    acquire_all x 100s lock lock2:read lock3:write
    acquire_all x 100s lock lock2:read lock3:write request=r1 attempt=a1
    full
    undo_all x lock lock2:read lock3:write request=r1 attempt=a1 => true
    undo_all x lock lock2:read lock3:write attempt=a => true
    heard => 0 0 1
";
