//! Taking a lock, and taking it again.

use super::lock_story::check;

tests! { #[tokio::test] fn acquire() = check(ROWS); }

const ROWS: &str = "
a free lock: one hash as Redisson has it, and a counter that shows the time
    acquire x 100s => granted 1 T1 100s
    state => lock{x=1}/100s counter=T1/100000s
each new grant has a larger token, also of another owner
    acquire x 100s => granted 1 T1 100s
    release x 100s
    heard => 0
    acquire x 100s => granted 1 T2 100s
    DEL lock
    acquire y 200s => granted 1 T3 200s
    state => lock{y=1}/200s counter=T3/100000s
a grant gives the counter its whole time to live again
    acquire x 100s
    DEL lock
    SET counter 5 PX 100000
    acquire y 100s => granted 1 T2 100s
    state => lock{y=1}/100s counter=T2/100000s
but not one that got it a moment ago
    acquire x 100s
    DEL lock
    PEXPIRE counter 150000000
    acquire y 100s => granted 1 T2 100s
    state => lock{y=1}/100s counter=T2/150000s
retention 0 keeps counters for ever
    retention 0s
    acquire x 100s => granted 1 T1 100s
    state => lock{x=1}/100s counter=T1/endless
retention 0 takes the time to live off a counter that has one
    acquire x 100s
    DEL lock
    retention 0s
    acquire x 100s => granted 1 T2 100s
    state => lock{x=1}/100s counter=T2/endless
a counter that Redisson left stays without a time to live
    SET counter 7
    acquire x 100s => granted 1 T1 100s
    state => lock{x=1}/100s counter=T1/endless
a small counter with a time to live is one of ours
    SET counter 7 PX 100000
    acquire x 100s => granted 1 T1 100s
    state => lock{x=1}/100s counter=T1/100000s
a counter ahead of a clock that was put back, or of another master's, still grows
    SET counter 5000000000000000 PX 100000
    acquire x 100s => granted 1 5000000000000001 100s
    DEL lock
    acquire y 100s => granted 1 5000000000000002 100s
    state => lock{y=1}/100s counter=5000000000000002/100000s
a lock of another owner: what is left of its lease, and no change
    acquire z 300s
    PEXPIRE lock 200000
    acquire x 100s => busy 200s
    acquire x 100s known=0 => busy 200s
    state => lock{z=1}/200s counter=T1/100000s
a lock of another owner that has no time to live
    HSET lock z 1
    acquire x 100s => busy endless
    state => lock{z=1}/endless
what another owner's count says does not matter
    HSET lock z many
    acquire x 100s => busy endless
    state => lock{z=many}/endless
again: one more hold, the same token, a longer lease
    acquire x 100s => granted 1 T1 100s
    acquire x 200s => granted 2 T1 200s
    state => lock{x=2}/200s counter=T1/100000s
again: the lease is never shortened
    acquire x 300s
    acquire x 100s => granted 2 T1 300s
    state => lock{x=2}/300s counter=T1/100000s
again: a lock without a time to live gets one
    HSET lock a-b-c-d-e 1
    acquire a-b-c-d-e 100s => granted 2 T1 100s
    state => lock{a-b-c-d-e=2}/100s counter=T1/100000s
again: the counter is left as it is
    acquire x 100s
    PEXPIRE counter 400000
    acquire x 100s => granted 2 T1 100s
    state => lock{x=2}/100s counter=T1/400s
again: a token is made if the counter is missing
    acquire x 100s => granted 1 T1 100s
    DEL counter
    acquire x 100s => granted 2 T2 100s
    state => lock{x=2}/100s counter=T2/100000s
the caller knows its holds
    acquire x 100s known=0 => granted 1 T1 100s
    acquire x 100s known=1 => granted 2 T1 100s
    acquire x 100s known=2 => granted 3 T1 100s
    state => lock{x=3}/100s counter=T1/100000s
holds that the caller does not know, taken elsewhere or left over, are waited out
    acquire x 200s => granted 1 T1 200s
    acquire x 100s
    acquire x 100s known=0 => busy 200s
    state => lock{x=2}/200s counter=T1/100000s
the caller knows better than the store, which missed a release
    acquire x 100s
    acquire x 100s
    acquire x 100s
    acquire x 100s known=1 => granted 2 T1 100s
    state => lock{x=2}/100s counter=T1/100000s
the caller knows better than the store, which lost a grant
    acquire x 100s
    acquire x 100s known=4 => granted 5 T1 100s
    state => lock{x=5}/100s counter=T1/100000s
the caller knows of holds that are gone: it has one
    acquire x 100s known=4 => granted 1 T1 100s
    state => lock{x=1}/100s counter=T1/100000s
a key that is no hash
    RPUSH lock a
    acquire x 100s => error WrongKind
    acquire x 100s request=r1 => error WrongKind
    state => lock{a}/endless
a text in place of the lock
    SET lock 1 PX 100000
    acquire x 100s => error WrongKind
    state => lock=1/100s
a read-write lock of Redisson
    HSET lock mode read z 1
    acquire x 100s => error WrongKind
    state => lock{mode=read z=1}/endless
an own count that is no number
    HSET lock x many
    acquire x 100s => error WrongKind
    state => lock{x=many}/endless
a counter that is no number
    SET counter many
    acquire x 100s => error WrongKind
    state => counter=many/endless
a counter that no larger token can follow: nobody gets the lock
    SET counter 9007199254740991
    acquire x 100s => error CounterOutOfRange
    acquire x 100s mode=fair => error CounterOutOfRange
    acquire x 100s mode=write => error CounterOutOfRange
    SET counter 9223372036854775807
    acquire x 100s => error CounterOutOfRange
    inspect => error CounterOutOfRange
    SET counter 9007199254740990
    acquire x 100s => granted 1 9007199254740991 100s
    release x 100s => done 0, now 0 100s
    heard => 0
    acquire y 100s => error CounterOutOfRange
    state => counter=9007199254740991/endless
a counter that is no text
    RPUSH counter a
    acquire x 100s => error WrongKind
    state => counter{a}/endless
a record that is none
    SET record:r1 a
    acquire x 100s request=r1 => error WrongKind
    acquire x 100s => granted 1 T1 100s
    acquire x 100s request=r1 => error WrongKind
    state => lock{x=1}/100s counter=T1/100000s record:r1=a/endless
out of memory: a free lock
    full
    acquire x 100s => error OutOfMemory
    acquire x 100s request=r1 => error OutOfMemory
    state => nothing
out of memory: again
    acquire x 100s
    full
    acquire x 200s => error OutOfMemory
    acquire x 200s known=1 => error OutOfMemory
    acquire x 200s request=r1 => error OutOfMemory
    state => lock{x=1}/100s counter=T1/100000s
out of memory: busy is an answer, but one that has to be recorded is not
    acquire z 100s
    full
    acquire x 100s => busy 100s
    acquire x 100s request=r1 => busy 100s
    acquire x 100s request=r1 recorded => error OutOfMemory
    state => lock{z=1}/100s counter=T1/100000s
";
