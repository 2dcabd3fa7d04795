//! Fair locks: the queue, whom a release wakes, and what becomes of waiters that died.

use super::lock_story::check;

tests! { #[tokio::test] fn fair() = check(ROWS); }

const ROWS: &str = "
a free lock without a queue is taken at once, and looks as an exclusive one
    acquire x 100s mode=fair => granted 1 T1 100s
    acquire x 200s mode=fair => granted 2 T1 200s
    state => lock{x=2}/200s counter=T1/100000s
    release x 200s mode=fair => done 1, now 1 200s
    release x 200s mode=fair => done 0, now 0 200s
    state => counter=T1/100000s
waiters queue in the order of arrival; one that asks again keeps its place
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits => busy 300s place 1
    acquire y 100s mode=fair waits => busy 300s place 2
    acquire x 100s mode=fair waits => busy 300s place 1
    acquire y 100s mode=fair waits => busy 300s
    state
      => lock{a=1}/300s counter=T1/100000s queue{x=y}/700s deadlines{x=y}/700s vouched{x=y}/700s
    inspect => a=1 T1 300s queue x,y of 2
a try does not queue up
    acquire a 300s mode=fair
    acquire x 100s mode=fair => busy 300s
    state => lock{a=1}/300s counter=T1/100000s
a release wakes the first, on its own channel, and nobody else gets in before it
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    acquire y 100s mode=fair waits
    release a 100s mode=fair => done 0, now 0 100s
    heard => 0:x
    acquire y 100s mode=fair waits => busy endless
    acquire z 100s mode=fair => busy endless
    acquire x 100s mode=fair waits => granted 1 T2 100s
    state
      => lock{x=1}/100s counter=T2/100000s queue{y}/700s deadlines{y}/700s vouched{y}/700s
a release wakes the next too if the first does not listen, because it may have died
    acquire a 300s mode=fair
    acquire silent1 100s mode=fair waits
    acquire silent2 100s mode=fair waits
    acquire x 100s mode=fair waits
    acquire y 100s mode=fair waits
    release a 100s mode=fair => done 0, now 0 100s
    heard => 0:x
    acquire x 100s mode=fair waits => busy endless
    acquire silent1 100s mode=fair waits => granted 1 T2 100s
a hold that remains wakes nobody
    acquire a 300s mode=fair
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    release a 100s mode=fair => done 1, now 1 300s
    heard => nothing
who leaves makes way, and wakes the next if the lock is free
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    acquire y 100s mode=fair waits
    leave x mode=fair
    heard => nothing
    inspect => a=1 T1 300s queue y of 1
    acquire z 100s mode=fair waits => busy 300s place 2
    DEL lock
    leave y mode=fair
    heard => 0:z
    leave z mode=fair
    leave z mode=fair
    state => counter=T1/100000s
a waiter that is put first comes next, and the others keep their order
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    acquire y 100s mode=fair waits
    acquire z 100s mode=fair waits
    first z => true
    first z => true
    first b => false
    first a => false
    heard => nothing
    inspect => a=1 T1 300s queue z,x,y of 3
    release a 300s mode=fair => done 0, now 0 300s
    heard => 0:z
    first y => true
    heard => 0:y
    acquire z 100s mode=fair waits => busy endless
    acquire y 100s mode=fair waits => granted 1 T2 100s
    inspect => y=1 T2 100s queue z,x of 2
an undo and the end of all holds wake the first too
    acquire a 300s mode=fair request=r1 attempt=a1
    acquire x 100s mode=fair waits
    undo a mode=fair request=r1 attempt=a1 => true
    heard => 0:x
    acquire x 100s mode=fair waits => granted 1 T2 100s
    acquire y 100s mode=fair waits
    lower x 0 mode=fair => true
    heard => 0:y
a keepalive answers with the places, and wakes the first of a free lock
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    acquire y 100s mode=fair waits
    vouch x y z => 300s, places 1 2 0
    heard => nothing
    DEL lock
    vouch y x => none, places 2 1
    heard => 0:x
one that nobody vouches for is passed over
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    acquire y 100s mode=fair waits
    ZADD vouched 1 x
    DEL lock
    acquire y 100s mode=fair waits => granted 1 T2 100s
    state => lock{y=1}/100s counter=T2/100000s
one that another program took for dead although it lives is the first again
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    acquire y 100s mode=fair waits
    LPOP queue
    ZREM deadlines x
    vouch x y => 300s, places 1 2
    LPOP queue
    ZREM deadlines x
    acquire x 100s mode=fair waits => busy 300s place 1
    inspect => a=1 T1 300s queue x,y of 2
one that nobody vouched for in time comes back as the last
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    LPOP queue
    ZREM deadlines x
    ZADD vouched 1 x
    acquire y 100s mode=fair waits
    vouch x => 300s, places 0
    acquire x 100s mode=fair waits => busy 300s place 2
who leaves a queue to waiters of another program leaves it without an end
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    RPUSH queue j
    ZADD deadlines 9000000000000 j
    PTTL queue => 700s
    leave x mode=fair
    PTTL queue => -1
    PTTL deadlines => -1
one that waits twice comes back once
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    LPOP queue
    ZREM deadlines x
    vouch x x => 300s, places 1 1
    inspect => a=1 T1 300s queue x of 1
who comes after one that was taken for dead is not dead to other programs at once
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    acquire y 100s mode=fair waits
    LPOP queue
    ZREM deadlines x
    LPOP queue
    ZREM deadlines y
    acquire z 100s mode=fair waits => busy 300s place 1
    state
      => lock{a=1}/300s counter=T1/100000s queue{z}/700s deadlines{z}/700s vouched{x=y z}/700s
a waiter of another program that listens is woken, and not passed over
    RPUSH queue x
    ZADD deadlines 1 x
    acquire y 100s mode=fair waits => busy endless place 2
    heard => 0:x
    inspect => 0 none queue x,y of 2
one that does not listen has until its time is over
    RPUSH queue dead1 dead2
    ZADD deadlines 1 dead1 99999999999999 dead2
    acquire y 100s mode=fair waits => busy endless place 2
    inspect => 0 none queue dead2,y of 2
    ZADD deadlines 1 dead2
    acquire y 100s mode=fair waits => granted 1 T1 100s
    state => lock{y=1}/100s counter=T1/100000s
while the lock is held, waiters of other programs are left alone until their time is over
    acquire a 300s mode=fair
    RPUSH queue dead1
    ZADD deadlines 99999999999999 dead1
    acquire y 100s mode=fair waits => busy 300s place 2
    ZADD deadlines 1 dead1
    vouch y => 300s, places 2
    vouch y => 300s, places 1
    heard => nothing
a request that is repeated
    acquire x 100s mode=fair request=r1 waits => granted 1 T1 100s
    acquire x 100s mode=fair request=r1 waits => repeated 1 T1 100s
    release x 100s mode=fair request=r2 => done 0, now 0 100s
    release x 100s mode=fair request=r2 => done 0, now 0 0s
    acquire x 100s mode=fair request=r1 waits => error RequestOver
a read/write lock is no fair lock
    acquire x 100s mode=read
    acquire y 100s mode=fair => error WrongKind
    release y 100s mode=fair => error WrongKind
a full store: the lock is given back also if a waiter of another program does not listen
    acquire x 100s mode=fair
    RPUSH queue b
    ZADD deadlines 9000000000000 b
    full
    release x 100s mode=fair => done 0, now 0 100s
a full store gives no lock and no place, and takes them back
    acquire a 300s mode=fair
    acquire x 100s mode=fair waits
    full
    acquire y 100s mode=fair waits => error OutOfMemory
    vouch x => error OutOfMemory
    leave x mode=fair
    release a 100s mode=fair => done 0, now 0 100s
";
