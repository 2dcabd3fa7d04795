//! Giving a hold back.

use lockkeeper_store::{
    host::{Call, words},
    script::catalog,
};

use super::lock_story::check;
use crate::support::hosts::HOSTS;
use crate::support::prelude::*;

tests! { #[tokio::test] fn release() = check(ROWS); }

/// A cluster may refuse to publish, and does so with an error.
#[tokio::test]
async fn a_publish_that_is_refused_changes_nothing() {
    for host in HOSTS {
        let store = host.start().await;
        let (client, _wakes) = store.connect();
        store.command(&["HSET", "lock", "x", "1"]).await;
        store.command(&["PEXPIRE", "lock", "100000"]).await;
        let keys = words![keys::lock("lock"), keys::counter("lock")];
        let releases = ["x", "100000", "600000", "channel", "nonsense", "0", ""];
        let undoes = ["x", "a", "0", "nonsense", "0", "", "channel"];
        for (script, args) in [
            (&catalog::LOCK_RELEASE, releases),
            (&catalog::LOCK_UNDO, undoes),
        ] {
            let call = Call {
                script,
                keys: keys.clone(),
                args: args.into_iter().collect(),
            };
            let refused = client.eval(call).await;
            assert!(
                matches!(refused, Err(HostError::Rejected { .. })),
                "{host:?}: {refused:?}"
            );
            let held = store.command(&["HGET", "lock", "x"]).await;
            assert_eq!(held, Value::Bytes("1".into()), "{host:?}");
        }
    }
}

const ROWS: &str = "
of a grant that has ended, when the owner has a newer one
    acquire x 100s
    release x 100s serial=1 => Expired
    state => lock{x=1}/100s counter=T1/100000s
the last hold frees the lock and wakes a waiter
    acquire x 100s
    release x 100s => done 0, now 0 100s
    heard => 0
    state => counter=T1/100000s
a hold that remains gets a new lease, and nobody is woken
    acquire x 100s
    acquire x 100s
    release x 200s => done 1, now 1 200s
    state => lock{x=1}/200s counter=T1/100000s
    heard => nothing
    release x 200s => done 0, now 0 200s
    heard => 0
a lease that remains is never shortened
    acquire x 300s
    acquire x 300s
    release x 100s => done 1, now 1 300s
    state => lock{x=1}/300s counter=T1/100000s
a lock without a time to live gets one
    HSET lock a-b-c-d-e 2
    release a-b-c-d-e 100s => done 1, now 1 100s
    state => lock{a-b-c-d-e=1}/100s
a count that should not be ends with the next release
    HSET lock a-b-c-d-e 0
    release a-b-c-d-e 100s => done 0, now 0 100s
    heard => 0
    state => nothing
    HSET lock a-b-c-d-e -3
    release a-b-c-d-e 100s => done 0, now 0 100s
    heard => 0
    state => nothing
not the owner: another one is
    acquire z 100s
    release x 200s => HeldByAnother
    release x 200s request=r1 => HeldByAnother
    state => lock{z=1}/100s counter=T1/100000s
not the owner: nobody is any more
    acquire x 100s
    DEL lock
    release x 200s => Expired
    release y 200s => Expired
    state => counter=T1/100000s
not the owner: nobody is known to have been
    release x 100s => NeverHeld
    state => nothing
a repeat gives back nothing more
    acquire x 100s
    acquire x 100s
    acquire x 100s
    release x 100s request=r1 => done 2, now 2 100s
    release x 100s request=r1 => done 2, now 2 100s
    state => lock{x=2}/100s counter=T1/100000s record:r1{op=release owner=x answer=2}/600s
a repeat of the last one wakes nobody
    acquire x 100s
    release x 100s request=r1 => done 0, now 0 100s
    heard => 0
    release x 100s request=r1 => done 0, now 0 0s
    state => counter=T1/100000s record:r1{op=release owner=x answer=0}/600s
the answer to a repeat has what is held since, which stays held
    acquire x 100s
    release x 100s request=r1
    heard => 0
    acquire x 200s
    acquire x 200s
    release x 900s request=r1 => done 0, now 2 200s
    release x 900s request=r2 => done 1, now 1 900s
    PEXPIRE lock 300000
    release x 900s request=r2 => done 1, now 1 300s
    release x 900s request=r1 => done 0, now 1 300s
    DEL lock
    acquire z 400s
    release x 900s request=r2 => done 1, now 0 400s
    state => lock{z=1}/400s counter=T3/100000s
      + record:r1{op=release owner=x answer=0}/600s
      + record:r2{op=release owner=x answer=1}/600s
a release that found nothing is not recorded
    release x 100s request=r1 => NeverHeld
    acquire x 100s
    release x 100s request=r1 => done 0, now 0 100s
    heard => 0
a request id of another owner
    acquire x 100s
    release x 100s request=r1
    heard => 0
    acquire y 100s
    release y 100s request=r1 => error RequestIdReused
    state => lock{y=1}/100s counter=T2/100000s record:r1{op=release owner=x answer=0}/600s
a request id of another operation
    acquire x 100s request=r1
    release x 100s request=r1 => error RequestIdReused
    state
      => lock{x=1}/100s counter=T1/100000s
      + record:r1{op=acquire owner=x attempt=a answer=T1}/600s
a key that is no hash
    RPUSH lock a
    release x 100s => error WrongKind
    release x 100s request=r1 => error WrongKind
    state => lock{a}/endless
a read-write lock of Redisson
    HSET lock mode read x 1
    release x 100s => error WrongKind
    release y 100s => error WrongKind
    state => lock{mode=read x=1}/endless
an own count that is no number
    HSET lock x many
    release x 100s => error WrongKind
    release y 100s => HeldByAnother
    state => lock{x=many}/endless
a record that is none
    acquire x 100s
    SET record:r1 a
    release x 200s request=r1 => error WrongKind
    state => lock{x=1}/100s counter=T1/100000s record:r1=a/endless
numbers that another program keeps in a hash stay as they are
    HSET lock visits 1
    release visits 100s => error WrongKind
    release visits 100s request=r1 => error WrongKind
    acquire visits 100s => error WrongKind
    renew visits@lock:100s => HeldByAnother
    force why => error WrongKind
    state => lock{visits=1}/endless
what the counter holds does not matter
    acquire x 100s
    DEL counter
    RPUSH counter a
    release x 100s => done 0, now 0 100s
    heard => 0
    release x 100s => Expired
out of memory: giving back works
    acquire x 100s
    acquire x 100s
    acquire x 100s
    acquire x 100s
    full
    release x 200s => done 3, now 3 200s
    release x 200s request=r1 => done 2, now 2 200s
    release x 200s request=r1 => done 2, now 2 200s
    release x 200s => done 1, now 1 200s
    release x 200s request=r2 => done 0, now 0 200s
    heard => 0
    release x 200s => Expired
    state => counter=T1/100000s
      + record:r1{op=release owner=x answer=2}/600s
      + record:r2{op=release owner=x answer=0}/600s
";
