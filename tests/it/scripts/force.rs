//! Taking a lock away by force, and which names there are.

use super::lock_story::check;

tests! {
    #[tokio::test] fn force() = check(FORCED);
    #[tokio::test] fn walk() = check(WALKED);
}

const FORCED: &str = "
nobody holds it
    force why => free
    forced => never
    state => nothing
all holds of its owner are released, and the counter moves on
    acquire x 100s
    acquire x 100s
    force why => x=2 T1 none
    heard => 0
    state => counter=T2/100000s forced{token=T1 reason=why}/600s
    forced => T1 why
    release x 100s serial=1 => Expired
    acquire y 100s => granted 1 T3 100s
    acquire x 100s => busy 100s
the record stays as long as the lease would have lasted
    acquire x 900s
    force why => x=1 T1 none
    heard => 0
    state => counter=T2/100000s forced{token=T1 reason=why}/900s
a second one has a record of its own
    acquire x 100s
    force why => x=1 T1 none
    acquire y 100s => granted 1 T2 100s
    force again => y=1 T2 none
    forced => T2 again
    heard => 0 0
a lock of Redisson, without a token and without a time to live
    HSET lock 8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:47 1
    force why => 8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:47=1 0 none
    heard => 0
    state => forced{token=0 reason=why}/600s
the first in the queue is woken, and so is who waits for an exclusive lock
    acquire x 100s mode=fair
    acquire y 100s mode=fair waits => busy 100s place 1
    force why => x=1 T1 none
    heard => 0 0:y
    acquire y 100s mode=fair waits => granted 1 T2 100s
all readers, with the keys of their holds
    acquire x 100s mode=read
    acquire x 100s mode=read
    acquire y 100s mode=read
    force why => x=2(Read 100s) y=1(Read 100s) 0 none
    heard => 1
    state => counter=T1/100000s forced{token=0 reason=why}/600s
    acquire z 100s mode=write => granted 1 T2 100s
a writer that reads as well
    acquire x 100s mode=write
    acquire x 100s mode=read
    force why => x=1(Write 100s) x=1(Read 100s) T1 none
    heard => 1
    state => counter=T2/100000s forced{token=T1 reason=why}/600s
when memory is full, for it is what sets some free
    acquire x 100s
    full
    force why => x=1 T1 none
    heard => 0
with a grace period it stays closed until its holder has acknowledged
    acquire x 300s
    force why 100s => x=1 T1 none
    heard => 0
    forced => T1 why 100s
    release x 300s serial=1 => HeldByAnother
    acquire y 300s => busy 100s
    acknowledge y => closed
    acknowledge x => open
    heard => 0
    acknowledge x => closed
    acquire y 300s => granted 1 T2 300s
    acknowledge x => closed
    inspect => y=1 T2 300s
each hold has to be acknowledged
    acquire x 300s
    acquire x 300s
    force why 100s => x=2 T1 none
    heard => 0
    acknowledge x => closed
    acquire y 300s => busy 100s
    acknowledge x => open
    heard => 0
    acquire y 300s => granted 1 T2 300s
a grace period is no longer than the lease that is left
    acquire x 100s
    force why 200s => x=1 T1 none
    heard => 0
    forced => T1 why 100s
    acquire y 300s => busy 100s
a second one without a grace period opens it
    acquire x 300s
    force why 100s => x=1 T1 none
    force again => lockkeeper_forced:x=1 T2 none
    heard => 0 0
    forced => T2 again
    acquire y 300s => granted 1 T3 300s
the first in the queue is woken when the holder has acknowledged
    acquire x 300s mode=fair
    acquire y 300s mode=fair waits => busy 300s place 1
    force why 100s => x=1 T1 none
    heard => 0 0:y
    acquire y 300s mode=fair waits => busy 100s place 1
    acknowledge x mode=fair => open
    heard => 0 0:y
    acquire y 300s mode=fair waits => granted 1 T2 300s
all readers have to acknowledge, and a writer that reads does so for each of its holds
    acquire x 300s mode=read
    acquire y 300s mode=read
    force why 100s => x=1(Read 300s) y=1(Read 300s) 0 none
    heard => 1
    acquire z 300s mode=read => busy 100s
    acknowledge x mode=read => closed
    heard =>
    acknowledge y mode=read => open
    heard => 1
    acquire x 300s mode=write => granted 1 T1 300s
    acquire x 300s mode=read
    force why 100s => x=1(Write 300s) x=1(Read 300s) T1 none
    heard => 1
    acknowledge x mode=read => closed
    acknowledge x mode=write => open
    heard => 1
    acquire z 300s => granted 1 T2 300s
more holders than are listed are waited for as long as the period lasts
    acquire a 300s mode=read
    acquire b 300s mode=read
    acquire c 300s mode=read
    acquire d 300s mode=read
    force why 100s => a=1(Read 300s) b=1(Read 300s) c=1(Read 300s) of 4 0 none
    heard => 1
    acknowledge a mode=read => closed
    acknowledge b mode=read => closed
    acknowledge c mode=read => closed
    acknowledge d mode=read => closed
    acquire e 300s mode=read => busy 100s
who was asked to yield loses it, and the record says so
    acquire x 300s => granted 1 T1 300s
    preempt 1 x why 100s => x=1 T1 none
    heard => 0
    forced => T1 preempted why 100s
    acquire y 300s => busy 100s
    acknowledge x => open
    heard => 0
    acquire y 300s => granted 1 T2 300s
    force again => y=1 T2 none
    forced => T2 again
    heard => 0
a later grant than the one that was asked for is nobody else's to lose
    acquire x 300s => granted 1 T1 300s
    release x 300s
    heard => 0
    preempt 1 x why 100s => free
    acquire y 300s => granted 1 T2 300s
    preempt 1 x why 100s => free
    forced => never
    inspect => y=1 T2 300s
nor is a later one with the same token, of a reader or of an owner in Redisson
    acquire x 300s mode=read => granted 1 0 300s
    release x 300s mode=read
    heard => 0
    acquire y 300s mode=read => granted 1 0 300s
    preempt 0 x why 100s => free
    acquire x 300s mode=read => granted 1 0 300s
    preempt 0 x why 100s => free
    preempt 0 x,y why 100s => y=1(Read 300s) x=1(Read 300s) 0 none
    heard => 1
an owner in Redisson that came later keeps its lock
    acquire x 300s => granted 1 T1 300s
    release x 300s
    heard => 0
    HSET lock 8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:47 1
    PEXPIRE lock 300000
    preempt 1 x why 100s => free
messages to coordinators of holders say which holders were reached
    tell 7 x y => [false, false]
    state => nothing
    reached 7 y
    tell 7 x y => [false, true]
    tell 8 x y => [false, false]
    reached 7 y
    reached 7 x
    tell 7 x y => [true, true]
    state => told{y=1 x=1}/100s
what is no lock stays
    SET lock 1
    force why => error WrongKind
    DEL lock
    HSET lock x a
    force why => error WrongKind
    DEL lock
    HSET lock mode other
    force why => error WrongKind
    state => lock{mode=other}/endless
";

const WALKED: &str = r"
an empty store
    walk / => nothing
locks of all modes, by their shapes
    acquire x 100s
    acquire x 100s on=lock2 mode=fair
    acquire x 100s on=lock3 mode=read
    acquire x 100s on=lock4 mode=write
    walk / => lock=Lock {lock}2=Lock {lock}3=ReadWriteLock {lock}4=ReadWriteLock
    walk /{lock}/ => {lock}2=Lock {lock}3=ReadWriteLock {lock}4=ReadWriteLock
    walk /{lock}3/ => {lock}3=ReadWriteLock
    walk /o/ => nothing
a queue in front of a free lock
    acquire x 100s mode=fair
    acquire y 100s mode=fair waits
    DEL lock
    walk / => lock=Lock
what others keep is no lock
    SET other 1
    HSET hash a 1 b 2
    HSET endless a 1
    HSET words a b
    RPUSH list a
    ZADD zset 1 a
    SET \xff 1
    walk / => nothing
a lock of Redisson that never ends
    HSET lock 8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:47 1
    walk / => lock=Lock
what is looked for is no pattern
    HSET a*b 8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:47 1
    HSET axb 8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:47 1
    walk /a*/ => a*b=Lock
    walk /a/ => a*b=Lock axb=Lock
semaphores and latches that say what they are
    SET lock 3
    SET lockkeeper_kind:{lock} latch
    SET lock2 3
    walk /lock/ => lock=Latch
    SET lockkeeper_kind:{lock} semaphore
    walk /lock/ => lock=Semaphore
    DEL lockkeeper_kind:{lock}
    walk /lock/ => nothing
    ZADD {lock}:timeout 1 a
    walk /lock/ => lock=Semaphore
";
