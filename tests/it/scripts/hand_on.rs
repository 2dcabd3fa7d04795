//! Giving the last hold of a lock to who waits for it.

use super::lock_story::check;

tests! {
    #[tokio::test] fn hand_on() =
        check(ROWS), check(SEEN), check(FAIR), check(WRITE), check(READ), check(RECORDED);
}

const ROWS: &str = "
the next owner gets a new token and its own lease, and no message is published
    acquire x 100s
    hand_on x y 200s => T2
    state => lock{y=1}/200s counter=T2/100000s
    heard => nothing
    hand_on y x 300s => T3
    state => lock{x=1}/300s counter=T3/100000s
    release x 100s => done 0, now 0 100s
    heard => 0
not the owner
    acquire z 100s
    hand_on x y 200s => nothing
    DEL lock
    hand_on z y 200s => nothing
    state => counter=T1/100000s
of a grant that has ended, when the owner has a newer one
    acquire x 100s
    hand_on x y 200s serial=1 => nothing
    state => lock{x=1}/100s counter=T1/100000s
of this grant, and no other one
    seeded
    HSET lock x 1
    hand_on x y 200s serial=3999999999999999 => nothing
    hand_on x y 200s serial=4000000000000000 => t1
    state
      => lock{y=1}/200s counter=t1/100000s counter2=t0/100000s counter3=t0/100000s
      + counter4=t0/100000s
it is not the last hold
    acquire x 100s
    acquire x 100s
    hand_on x y 200s => nothing
    state => lock{x=2}/100s counter=T1/100000s
a lock and a counter without a time to live: the lock gets one
    HSET lock x 1
    SET counter 7
    hand_on x y 200s => T1
    state => lock{y=1}/200s counter=T1/endless
a counter that was lost
    acquire x 100s
    DEL counter
    hand_on x y 200s => T2
    state => lock{y=1}/200s counter=T2/100000s
counters that are kept for ever
    retention 0s
    acquire x 100s
    hand_on x y 200s => T2
    state => lock{y=1}/200s counter=T2/endless
what is not such a lock's
    HSET lock mode write x 1
    hand_on x y 200s => nothing
    state => lock{mode=write x=1}/endless
    DEL lock
    RPUSH lock a
    hand_on x y 200s => error WrongKind
    DEL lock
    HSET lock x 1
    SET counter many
    hand_on x y 200s => nothing
    state => lock{x=1}/endless counter=many/endless
a store that is full changes nothing
    acquire x 100s
    full
    hand_on x y 200s => error OutOfMemory
    state => lock{x=1}/100s counter=T1/100000s
";

/// The caller has seen the counter a moment ago. Fields name grants, or do not.
const SEEN: &str = "
the same by a counter that was seen
    native
    acquire x 100s known=0 => granted 1 T1 100s
    hand_on x y 200s serial=T1 => T2
    state => lock{y=1}/200s counter=T2/100000s
    hand_on y x 300s serial=T2 => T3
    state => lock{x=1}/300s counter=T3/100000s
    heard => nothing
the same from grant to grant
    native
    acquire s#1:0 100s known=0 => granted 1 T1 100s
    hand_on s#1:0 s#2:1 200s serial=T1 => T2
    state => lock{s#2:1=1}/200s counter=T2/100000s
    hand_on s#2:1 s#3:0 300s serial=T2 => T3
    state => lock{s#3:0=1}/300s counter=T3/100000s
    heard => nothing
not of this grant any more: nothing changes
    native
    acquire s#1:0 100s known=0
    hand_on s#2:0 s#3:1 200s serial=T1 => nothing
    state => lock{s#1:0=1}/100s counter=T1/100000s
    hand_on x y 200s serial=T1 => nothing
    DEL lock
    hand_on s#1:0 s#2:1 200s serial=T1 => nothing
    state => counter=T1/100000s
of several holds, or a newer grant of the owner: nothing changes
    native
    acquire x 100s known=0 => granted 1 T1 100s
    DEL lock
    acquire x 100s known=0 => granted 1 T2 100s
    hand_on x y 200s serial=T1 => nothing
    state => lock{x=1}/100s counter=T2/100000s
    acquire x 100s known=1
    hand_on x y 200s serial=T2 => nothing
    state => lock{x=2}/100s counter=T2/100000s
another client has raised the counter, or it was lost
    native
    acquire s#1:0 100s known=0
    SET counter 4000000000000000 PX 100000000
    hand_on s#1:0 s#2:1 200s serial=T1 => t1
    state => lock{s#2:1=1}/200s counter=t1/100000s
    DEL counter
    hand_on s#2:1 s#3:0 300s serial=4000000000000001 => T2
    state => lock{s#3:0=1}/300s counter=T2/100000s
    heard => nothing
a counter that has come to its end: the lock is free
    native
    acquire s#1:0 100s known=0
    SET counter 9007199254740991 PX 100000000
    hand_on s#1:0 s#2:1 200s serial=T1 => error OutcomeUnknown
    heard => 0
    release s#1:0 100s serial=T1 => Expired
a store that is full changes nothing
    native
    acquire s#1:0 100s known=0
    full
    hand_on s#1:0 s#2:1 200s serial=T1 => error OutOfMemory
    state => lock{s#1:0=1}/100s counter=T1/100000s
";

/// A fair lock is given to the first in its queue.
const FAIR: &str = "
the first in the queue gets it and leaves the queue, and no message is published
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    acquire y 100s mode=fair waits
    hand_on a x 200s mode=fair => T2
    state => lock{x=1}/200s counter=T2/100000s queue{y}/700s deadlines{y}/700s vouched{y}/700s
    hand_on x y 100s mode=fair => T3
    state => lock{y=1}/100s counter=T3/100000s
    heard => nothing
not one that stands behind another, nor one that does not wait
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    acquire y 100s mode=fair waits
    hand_on a y 200s mode=fair => others come first
    hand_on a z 200s mode=fair => others come first
    leave x mode=fair
    leave y mode=fair
    hand_on a y 200s mode=fair => others come first
    state => lock{a=1}/300s counter=T1/100000s
    heard => nothing
it is not the owner's last hold of that grant
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    hand_on a x 200s mode=fair serial=1 => nothing
    acquire a 300s mode=fair
    hand_on a x 200s mode=fair => nothing
    inspect => a=2 T1 300s queue x of 1
the same by a counter that was seen
    native
    acquire a 300s mode=fair known=0 => granted 1 T1 300s
    acquire x 100s mode=fair waits
    hand_on a y 200s mode=fair serial=T1 => others come first
    hand_on a x 200s mode=fair serial=T1 => T2
    state => lock{x=1}/200s counter=T2/100000s
";

/// A write lock is given to another writer.
const WRITE: &str = "
the next writer gets it, the mark of one that waited ends, and no message is published
    acquire x 100s mode=write
    SET writer_waiting 1 PX 100000
    hand_on x y 200s mode=write => T2
    state => lock{mode=write y:write=1}/200s counter=T2/100000s
    heard => nothing
    hand_on y x 300s mode=write serial=T2 => T3
    state => lock{mode=write x:write=1}/300s counter=T3/100000s
    release x 100s mode=write => done 0, now 0 300s
    heard => 1
not while its owner reads
    acquire x 100s mode=write
    acquire x 100s mode=read
    hand_on x y 200s mode=write => nothing
    release x 100s mode=read
    hand_on x y 200s mode=write => T2
it is not the last hold of that grant, or not the owner's
    acquire x 100s mode=write
    hand_on x y 200s mode=write serial=1 => nothing
    hand_on z y 200s mode=write => nothing
    acquire x 100s mode=write
    hand_on x y 200s mode=write => nothing
    state => lock{mode=write x:write=2}/100s counter=T1/100000s
it is held otherwise
    acquire x 100s mode=read
    hand_on x y 200s mode=write => nothing
    release x 100s mode=read
    acquire x 100s
    hand_on x y 200s mode=write => nothing
    state => lock{x=1}/100s counter=T1/100000s
    heard => 0
the same by a counter that was seen
    native
    acquire x 300s mode=write known=0 => granted 1 T1 300s
    hand_on x y 200s mode=write serial=T1 => T2
    hand_on x z 200s mode=write serial=T1 => nothing
    state => lock{mode=write y:write=1}/200s counter=T2/100000s
";

/// The lock of the last reader is given to a writer.
const READ: &str = "
the writer gets it with a new token, and no message is published
    acquire z 100s mode=write => granted 1 T1 100s
    release z 100s mode=write
    heard => 1
    acquire x 100s mode=read fresh=7 => granted 1 T1 100s serial=7
    SET writer_waiting 1 PX 100000
    hand_on x y 200s mode=read serial=7 => T2
    state => lock{mode=write y:write=1}/200s counter=T2/100000s
    heard => nothing
    release y 100s mode=write => done 0, now 0 200s
    heard => 1
a lock that no writer had before, and a caller that does not know the serial
    acquire x 100s mode=read fresh=7
    hand_on x y 200s mode=read => T1
    state => lock{mode=write y:write=1}/200s counter=T1/100000s
the same by a counter that was seen
    native
    acquire z 100s mode=write known=0 => granted 1 T1 100s
    hand_on z x 100s mode=write serial=T1 => T2
    release x 100s mode=write
    heard => 1
    acquire x 100s mode=read fresh=7 known=0
    hand_on x y 200s mode=read serial=7 => T3
    state => lock{mode=write y:write=1}/200s counter=T3/100000s
not while others read
    acquire x 100s mode=read fresh=7
    acquire y 300s mode=read fresh=8
    acquire z 300s mode=read fresh=9
    hand_on x w 200s mode=read serial=7 => 2 others read
    release z 100s mode=read
    hand_on x w 200s mode=read serial=7 => 1 others read
    state => lock{mode=read x=1 y=1}/300s readers{x=y}/300s x:1=7/100s y:1=8/300s
    heard => nothing
it is not the last hold of that grant, or its lease has ended
    acquire x 100s mode=read fresh=7
    hand_on x y 200s mode=read serial=6 => nothing
    hand_on z y 200s mode=read serial=7 => nothing
    acquire x 100s mode=read fresh=8
    hand_on x y 200s mode=read serial=7 => nothing
    release x 100s mode=read
    DEL x:1
    hand_on x y 200s mode=read serial=7 => nothing
    hand_on x y 200s mode=read => nothing
    state => lock{mode=read x=1}/100s readers{x}/100s
it is held otherwise
    acquire x 100s mode=write
    acquire x 100s mode=read fresh=7
    hand_on x y 200s mode=read serial=7 => nothing
    release x 100s mode=read
    release x 100s mode=write
    heard => 1
    acquire x 100s
    hand_on x y 200s mode=read => nothing
    state => lock{x=1}/100s counter=T2/100000s
with a request id
    acquire x 100s mode=read fresh=7
    hand_on x y 200s mode=read serial=7 request=r1 attempt=a1 => T1
    acquire y 100s mode=write request=r1 attempt=a2 => repeated 1 T1 200s
    release y 100s mode=write
    heard => 1
    acquire x 100s mode=read fresh=8
    hand_on x y 200s mode=read serial=8 request=r1 attempt=a3 => nothing
    state
      => lock{mode=read x=1}/100s counter=T1/100000s readers{x}/100s x:1=8/100s
      + record:r1{op=acquire owner=y:write attempt= answer=T1}/1400s
a counter that is none, and a store that is full: nothing changes
    acquire x 100s mode=read fresh=7
    SET counter many
    hand_on x y 200s mode=read serial=7 => nothing
    state => lock{mode=read x=1}/100s counter=many/endless readers{x}/100s x:1=7/100s
    DEL counter
    full
    hand_on x y 200s mode=read serial=7 => error OutOfMemory
    state => lock{mode=read x=1}/100s readers{x}/100s x:1=7/100s
";

/// The next owner's attempt has a request id, or a record that only an undo will look for.
const RECORDED: &str = "
the grant is recorded, so a repeat finds it
    acquire x 100s
    hand_on x y 200s request=r1 attempt=a1 => T2
    state
      => lock{y=1}/200s counter=T2/100000s
      + record:r1{op=acquire owner=y attempt=a1 answer=T2}/600s
    acquire y 300s request=r1 attempt=a2 => repeated 1 T2 200s
and so does an undo
    acquire x 100s
    hand_on x y 200s serial=T1 request=a1 attempt=a1 => T2
    undo y request=a1 attempt=a1 => true
    heard => 0
    undo y request=a1 attempt=a1 => false
    state => counter=T2/100000s
by a counter that was seen
    native
    acquire x 100s known=0 => granted 1 T1 100s
    hand_on x y 200s serial=T1 request=r1 attempt=a1 => T2
    acquire y 300s request=r1 attempt=a2 => repeated 1 T2 200s
a request that was answered before is not answered again
    acquire y 100s request=r1 attempt=a1
    release y 100s
    heard => 0
    acquire x 100s
    hand_on x y 200s request=r1 attempt=a2 => nothing
    state
      => lock{x=1}/100s counter=T2/100000s
      + record:r1{op=acquire owner=y attempt=a1 answer=T1}/600s
of a fair lock
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    hand_on a y 200s mode=fair request=r1 attempt=a1 => others come first
    hand_on a x 200s mode=fair request=r1 attempt=a1 => T2
    acquire x 100s mode=fair request=r1 attempt=a2 => repeated 1 T2 200s
    state
      => lock{x=1}/200s counter=T2/100000s
      + record:r1{op=acquire owner=x attempt= answer=T2}/1400s
of a write lock
    acquire x 100s mode=write
    SET writer_waiting 1 PX 100000
    hand_on x y 200s mode=write request=r1 attempt=a1 => T2
    acquire y 100s mode=write request=r1 attempt=a2 => repeated 1 T2 200s
    undo y mode=write request=r1 attempt=a1 => false
    state
      => lock{mode=write y:write=1}/200s counter=T2/100000s
      + record:r1{op=acquire owner=y:write attempt= answer=T2}/1400s
";
