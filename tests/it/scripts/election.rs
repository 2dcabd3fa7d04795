//! Elections: a fair lock, and a record of the values that its holders proclaim.

use lockkeeper_store::script::{
    Attempt, CallError, ElectionInspected, Hold, Mode, Proclaimed, Refusal, Scripts,
};

use super::{
    lock_story::check,
    mask::Mask,
    story::{config, option, or_nothing, rounded_or_endless},
};
use crate::support::{hosts::HOSTS, secs};

tests! { #[tokio::test] fn elections() = check(ROWS); }

const ROWS: &str = "
the holder's values are recorded and announced, the same one once
    acquire x 100s mode=fair
    leader => nobody
    proclaim x one => r0
    heard => 1
    leader => T1 r0 x one 100s
    PTTL election => 100000s
    proclaim x one => r0
    proclaim x two => r1
    heard => 1
    leader => T1 r1 x two 100s
    terms 0 => T1 r1 x two
    terms 1 => T1 r1 x two
    terms all => T1 r0 x one, T1 r1 x two
nobody else proclaims, nor the holder in another term
    proclaim x one => NeverHeld
    acquire x 100s mode=fair
    proclaim y one => HeldByAnother
    release x 100s mode=fair
    proclaim x one => Expired
    acquire y 100s mode=fair
    proclaim x one => HeldByAnother
    release y 100s mode=fair
    acquire x 100s mode=fair
    leader => nobody
    proclaim x one term=1 => Expired
    terms all => nothing
    proclaim x one => r0
    heard => 1
    leader => T3 r0 x one 100s
who holds the lock and has not proclaimed is no leader
    acquire x 100s mode=fair
    proclaim x one => r0
    heard => 1
    release x 100s mode=fair
    leader => nobody
    acquire y 100s mode=fair
    leader => nobody
    proclaim y two => r1
    heard => 1
    leader => T2 r1 y two 100s
    terms 0 => T2 r1 y two
    terms all => T1 r0 x one, T2 r1 y two
    DEL lock
    HSET lock 8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:47 1
    PEXPIRE lock 100000
    leader => nobody
a release by force ends the term
    acquire x 100s mode=fair
    proclaim x one
    heard => 1
    force why 200s
    leader => nobody
    proclaim x two => HeldByAnother
    heard => 0
renewals keep the record as long as the counter, which the next leader gets too
    acquire x 100s mode=fair
    proclaim x one
    heard => 1
    PEXPIRE counter 400000
    PEXPIRE election 400000
    renew x@lock:300s:fair => 1 T1 300s
    PTTL election => 100000s
    PTTL counter => 100000s
    leader => T1 r0 x one 300s
nobody leads while the lock's delay runs
    acquire x 300s mode=fair delay=200s
    proclaim x one
    heard => 1
    leader => T1 r0 x one 300s
    PEXPIRE lock 100000
    leader => nobody
    proclaim x two => Expired
a record that loses its end with the counter
    acquire x 100s mode=fair
    proclaim x one
    heard => 1
    retention 0s
    proclaim x two
    heard => 1
    PTTL election => -1
a record without an end, as the counter
    retention 0s
    acquire x 100s mode=fair
    proclaim x one
    heard => 1
    PTTL election => -1
the grant of a field that names it
    acquire s#1:0 100s known=0
    proclaim s:0 one => r0
    heard => 1
    leader => T1 r0 s#1:0 one 100s
a record that is lost begins anew, with a larger revision
    acquire x 100s mode=fair
    proclaim x one => r0
    heard => 1
    DEL election
    leader => nobody
    proclaim x two => later
    heard => 1
    terms 0 => T1 later x two
another kind of lock, or of key
    acquire x 100s mode=read known=0
    proclaim x one => error WrongKind
    DEL lock
    SET lock 5
    proclaim x one => error WrongKind
    leader => nobody
    DEL lock
    SET election 5
    leader => error WrongKind
    acquire x 100s mode=fair
    proclaim x one => error WrongKind
out of memory: nothing is recorded
    acquire x 100s mode=fair
    full
    proclaim x one => error OutOfMemory
    heard => 1
    terms all => nothing
";

/// The record keeps the newest values, and says which are gone by their numbers.
#[tokio::test]
async fn a_long_record_keeps_the_newest_values() {
    for host in HOSTS {
        let store = host.start().await;
        let scripts = Scripts::new(store.connect().0, config());
        let attempt = Attempt {
            known_holds: Some(0),
            ..Attempt::new("a", 0)
        };
        let hold = Hold::new("lock", Mode::Fair, "x");
        let taken = scripts.acquire(hold, secs(100), &attempt, Refusal::Forgotten);
        taken.await.unwrap();
        let term = scripts.inspect("lock", 1).await.unwrap().token;
        let mut revisions = Vec::new();
        for value in 0..100 {
            let value = value.to_string();
            let proclaimed = scripts.proclaim("lock", "x", term, "", &value);
            let Proclaimed::Done(revision) = proclaimed.await.unwrap() else {
                panic!("{host:?}: it leads");
            };
            revisions.push(revision);
        }
        let follow = revisions.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        assert!(follow, "{host:?}: {revisions:?}");
        let last = revisions[99];
        for (after, kept) in [
            (last - 1, 1),
            (last - 5, 5),
            (last - 64, 64),
            (last - 65, 64),
            (0, 64),
            (last + 7, 64),
        ] {
            let seen = scripts.inspect_election("lock", Some(after)).await.unwrap();
            let seen = seen.recorded.iter().map(|it| it.revision);
            let newest = &revisions[100 - kept..];
            assert!(seen.eq(newest.iter().copied()), "{host:?}: after {after}");
        }
    }
}

/// The words of stories about elections.
#[derive(Debug, Default)]
pub(super) struct Elections {
    /// The first revision, from which others are counted.
    first: Option<u64>,
    /// The last one that followed.
    last: u64,
}

// === impl Elections ===

impl Elections {
    pub(super) async fn call(
        &mut self,
        scripts: &Scripts,
        mask: &mut Mask,
        on: &str,
        words: &[&str],
    ) -> Option<Result<String, CallError>> {
        Some(match *words {
            ["proclaim", owner, value, ref rest @ ..] => {
                let term = match option(rest, "term") {
                    Some(place) => mask.token(place.parse().unwrap()),
                    None => scripts.inspect(on, 1).await.map_or(0, |seen| seen.token),
                };
                let proclaimed = scripts.proclaim(on, owner, term, "client", value).await;
                proclaimed.map(|proclaimed| match proclaimed {
                    Proclaimed::Done(revision) => self.revision(revision),
                    Proclaimed::NotLeader(why) => format!("{why:?}"),
                })
            }
            ["leader"] => scripts.inspect_election(on, None).await.map(|seen| {
                if seen.leads {
                    let remaining = rounded_or_endless(seen.remaining);
                    format!("{} {remaining}", self.recorded(&seen, mask))
                } else {
                    "nobody".to_owned()
                }
            }),
            ["terms", after] => {
                let after = after.parse().ok().zip(self.first);
                let after = after.map_or(0, |(after, first): (u64, _)| first + after);
                let seen = scripts.inspect_election(on, Some(after)).await;
                seen.map(|seen| self.recorded(&seen, mask))
            }
            _ => return None,
        })
    }

    fn revision(&mut self, revision: u64) -> String {
        let first = *self.first.get_or_insert(revision);
        let next = self.last.max(first) + 1;
        if revision > next {
            return "later".to_owned();
        }
        self.last = self.last.max(revision);
        format!("r{}", revision - first)
    }

    fn recorded(&mut self, seen: &ElectionInspected, mask: &mut Mask) -> String {
        let shown = seen.recorded.iter().map(|it| {
            assert_eq!(it.client_name, "client");
            let term = mask.number(it.term.try_into().unwrap());
            let revision = self.revision(it.revision);
            format!("{term} {revision} {} {}", it.owner, it.value)
        });
        or_nothing(&shown.collect::<Vec<_>>(), ", ")
    }
}
