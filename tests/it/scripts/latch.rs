//! Latches: a count that is set once and counted down.

use super::counter_story::check;

tests! { #[tokio::test] fn latches_are_counted_down() = check(ROWS); }

const ROWS: &str = "
set once, counted down, and gone when it opens
    look => 0 endless
    count 3 => set 3
    heard => 1
    count 5 => there 3
    state => n=3/endless kind=latch/100000s
    down 1 => 2
    look => 2 endless
    down 2 => 0
    heard => 0
    state => nothing
    count 5 => set 5
    heard => 1
never below zero
    down 1 => only 0
    count 2
    heard => 1
    down 3 => only 2
    down 2 => 0
    heard => 0
    down 1 => only 0
    state => nothing
with a time to live
    count 2 ttl=300s => set 2
    heard => 1
    down 1 => 1
    look => 1 300s
    state => n=1/300s kind=latch/100000s
deleted
    delete => false
    count 2
    heard => 1
    delete => true
    heard => 0
    look => 0 endless
    state => nothing
repeats get the first answer
    count 2 request=r1 => set 2
    heard => 1
    count 2 request=r1 => set 2
    count 3 request=r1 => error RequestIdReused
    down 1 request=r1 => error RequestIdReused
    down 1 request=r2 => 1
    down 1 request=r2 => 1
    down 2 request=r2 => error RequestIdReused
    look => 1 endless
    state
      => n=1/endless kind=latch/100000s record:r1{op=set_count answer=2}/600s
      + record:r2{op=count_down by=1 answer=1}/600s
    down 1 request=r3 => 0
    heard => 0
    down 1 request=r3 => 0
one whose count another program has deleted may become something else
    count 2
    heard => 1
    DEL n
    down 1 => only 0
    state => nothing
    count 2
    heard => 1
    DEL n
    delete => false
    state => nothing
out of memory: counting down works
    count 2
    heard => 1
    full
    count 2 on=m => error OutOfMemory
    heard => 1
    down 1 request=r1 => 1
    down 1 => 0
    heard => 0
a lock, a semaphore, a text
    HSET n x 1
    count 1 => error WrongKind
    down 1 => error WrongKind
    look => error WrongKind
    delete => error WrongKind
    DEL n
    set 2
    heard => 2
    count 1 => error WrongKind
    down 1 => error WrongKind
    look => error WrongKind
    delete => error WrongKind
    DEL kind
    ZADD leases 922337203685477 id:a
    down 1 => error WrongKind
    look => error WrongKind
    DEL leases
    SET n many
    down 1 => error WrongKind
    state => n=many/endless
one of Redisson's
    SET n 2
    down 1 => 1
    down 1 => 0
    heard => 0
    state => nothing
";
