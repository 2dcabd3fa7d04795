//! Read/write locks: who may be in together, what a lease is worth, and who is woken.

use super::lock_story::check;

tests! { #[tokio::test] fn read_write() = check(ROWS); }

const ROWS: &str = "
readers share: Redisson's hash, a key for each hold, and our own set of readers
    acquire x 100s mode=read fresh=7 => granted 1 0 100s serial=7
    acquire y 300s mode=read fresh=8 => granted 1 0 300s serial=8
    state => lock{mode=read x=1 y=1}/300s readers{x=y}/300s x:1=7/100s y:1=8/300s
    inspect => x=1(Read 100s) y=1(Read 300s) 0 300s
reading again keeps the serial and never shortens
    acquire x 300s mode=read fresh=7 => granted 1 0 300s serial=7
    acquire x 100s mode=read fresh=8 => granted 2 0 300s serial=7
    release x 100s mode=read => done 1, now 1 300s
    release x 100s mode=read => done 0, now 0 0s
    heard => 0
    state => nothing
a writer keeps all others out, and gets a token that readers see later
    acquire x 100s mode=write => granted 1 T1 100s
    acquire y 100s mode=write => busy 100s
    acquire y 100s mode=read => busy 100s
    state => lock{mode=write x:write=1}/100s counter=T1/100000s
    release x 100s mode=write => done 0, now 0 100s
    heard => 1
    acquire y 100s mode=read fresh=7 => granted 1 T1 100s serial=7
writing again keeps the token and never shortens
    acquire x 300s mode=write => granted 1 T1 300s
    acquire x 100s mode=write => granted 2 T1 300s
    release x 100s mode=write => done 1, now 1 300s
    state => lock{mode=write x:write=1}/300s counter=T1/100000s
a writer may read, and goes on reading; others are let in then, and woken
    acquire x 100s mode=write => granted 1 T1 100s
    acquire x 200s mode=read fresh=7 => granted 1 T1 200s serial=7
    acquire y 100s mode=read => busy 200s
    inspect => x=1(Write 200s) x=1(Read 200s) T1 200s
    release x 100s mode=write => done 0, now 0 200s
    heard => 1
    acquire y 100s mode=read fresh=8 => granted 1 T1 100s serial=8
    acquire z 100s mode=write => busy 200s
a writer that gives its read hold back first goes on writing
    acquire x 100s mode=write
    acquire x 200s mode=read
    release x 100s mode=read => done 0, now 0 0s
    heard => nothing
    acquire y 100s mode=read => busy 200s
    release x 100s mode=write => done 0, now 0 200s
    heard => 1
who only reads and wants to write is refused at once
    acquire x 100s mode=read
    release x 100s mode=write => HeldInAnotherMode
    acquire x 100s mode=write => error SelfDeadlock
    acquire y 100s mode=read
    acquire x 100s mode=write waits => error SelfDeadlock
    state => lock{mode=read x=1 y=1}/100s readers{x=y}/100s x:1=1/100s y:1=1/100s
the lock lives as long as the longest reader, also after that has gone
    acquire x 100s mode=read
    acquire y 300s mode=read
    acquire z 100s mode=write => busy 300s
    release y 100s mode=read => done 0, now 0 0s
    acquire z 100s mode=write => busy 100s
    heard => nothing
    release x 100s mode=read => done 0, now 0 0s
    heard => 0
    acquire z 100s mode=write => granted 1 T1 100s
a reader whose lease is over does not keep a writer out, and can give nothing back
    acquire x 100s mode=read
    acquire y 300s mode=read
    DEL y:1
    ZADD readers 1 y
    release y 100s mode=read => Expired
    acquire z 100s mode=write => busy 100s
    DEL x:1
    ZADD readers 1 x
    acquire z 100s mode=write => granted 1 T1 100s
    state => lock{mode=write z:write=1}/100s counter=T1/100000s
readers of another program count by their own keys, however often they say they hold it
    HSET lock mode read y 2
    PEXPIRE lock 300000
    SET y:2 1 PX 200000
    acquire z 100s mode=write => busy 200s
    acquire x 100s mode=read => granted 1 0 100s
    release x 100s mode=read => done 0, now 0 0s
    state => lock{mode=read y=2}/300s y:2=1/200s
    DEL y:2
    acquire z 100s mode=write => granted 1 T1 100s
the last reader of ours takes with it what dead readers of another program left
    HSET lock mode read y 1
    PEXPIRE lock 300000
    acquire x 100s mode=read
    release x 100s mode=read => done 0, now 0 0s
    heard => 0
    state => nothing
a set of readers that another program's force-unlock left over is not believed
    acquire x 100s mode=read
    DEL lock x:1
    HSET lock mode read y 1
    SET y:1 1 PX 200000
    PEXPIRE lock 200000
    acquire z 100s mode=write => busy 200s
    DEL lock
    acquire y 300s mode=read => granted 1 0 300s
    state => lock{mode=read y=1}/300s readers{y}/300s y:1=1/300s
a writer that waits holds new readers back, but not those that are in, and for a time
    acquire x 300s mode=read
    acquire z 100s mode=write waits => busy 300s
    acquire y 100s mode=read => busy 100s
    acquire x 300s mode=read => granted 2 0 300s
    PEXPIRE writer_waiting 100000
    acquire y 100s mode=read => granted 1 0 100s
    acquire z 100s mode=write waits => busy 300s
    acquire a 100s mode=read => granted 1 0 100s
it goes first when the readers have gone, and its mark with it
    acquire x 300s mode=read
    acquire z 100s mode=write waits
    release x 100s mode=read => done 0, now 0 0s
    heard => 0
    acquire y 100s mode=read => busy 100s
    acquire z 100s mode=write waits => granted 1 T1 100s
    state => lock{mode=write z:write=1}/100s counter=T1/100000s
a writer that does not wait any longer lets readers in
    acquire x 300s mode=read
    acquire z 100s mode=write waits
    leave z mode=write
    heard => 1
    acquire y 100s mode=read => granted 1 0 100s
    leave z mode=write
    heard => nothing
a try for writing holds nobody back
    acquire x 300s mode=read
    acquire z 100s mode=write => busy 300s
    acquire y 100s mode=read => granted 1 0 100s
who does not hold it so cannot give it back so
    acquire x 100s mode=write
    release x 100s mode=read => HeldInAnotherMode
    release y 100s mode=write => HeldByAnother
    release x 100s mode=write
    heard => 1
    release x 100s mode=write => Expired
    release x 100s mode=read => Expired
    release x 100s mode=read on=lock2 => NeverHeld
undoes of a reader: by record, by number, and never of a newer grant
    acquire x 100s mode=read request=r1 attempt=a1 fresh=7
    undo x mode=read request=r1 attempt=a2 => false
    undo x mode=read request=r1 attempt=a1 => true
    heard => 0
    acquire x 100s mode=read fresh=8
    undo x mode=read known=0 serial=7 => false
    acquire x 100s mode=read fresh=9 => granted 2 0 100s serial=8
    lower x 1 mode=read serial=8 => true
    release x 100s mode=read serial=7 => Expired
    lower x 0 mode=read serial=8 => true
    heard => 0
    state => nothing
undoes of a writer
    acquire x 100s mode=write request=r1 attempt=a1
    undo x mode=write request=r1 attempt=a1 => true
    heard => 1
    acquire x 100s mode=write
    acquire x 100s mode=write
    lower x 1 mode=write => true
    lower x 0 mode=write => true
    heard => 1
    state => counter=T2/100000s
repeats
    acquire x 100s mode=read request=r1 attempt=a1 fresh=7
    acquire x 100s mode=read request=r1 attempt=a2 fresh=8 => repeated 1 0 100s serial=7
    release x 100s mode=read request=r2 => done 0, now 0 0s
    heard => 0
    release x 100s mode=read request=r2 => done 0, now 0 0s
    acquire x 100s mode=read request=r1 fresh=9 => error RequestOver
    acquire x 100s mode=write request=r3 => granted 1 T1 100s
    acquire x 100s mode=write request=r3 => repeated 1 T1 100s
unknown holds are waited out, also where others read or the owner writes
    acquire x 200s mode=read fresh=7
    acquire y 100s mode=read fresh=8
    acquire x 100s mode=read fresh=9 known=0 => busy 200s
    release y 100s mode=read
    release x 100s mode=read
    heard => 0
    acquire x 300s mode=write
    acquire x 100s mode=read fresh=7
    acquire x 100s mode=write known=0 => busy 300s
    acquire x 100s mode=read fresh=8 known=0 => busy 100s
    acquire x 100s mode=read fresh=8 known=1 => granted 2 T1 100s serial=7
renewals: each reader its own lease, and the lock that of the longest
    acquire x 100s mode=read fresh=7
    acquire y 200s mode=read fresh=8
    renew x@lock:300s:read => 1 0 300s
    state => lock{mode=read x=1 y=1}/300s readers{y=x}/300s x:1=7/300s y:1=8/200s
    renew y@lock:0s:read z@lock:100s:read x@lock:100s:write
      => 1 0 200s, HeldByAnother, HeldByAnother
    renew x@lock:100s => HeldByAnother
    release x 100s mode=read
    release x 100s mode=write => HeldByAnother
    acquire x 300s mode=write
    DEL y:1
    renew y@lock:100s:read => Expired
a look at a read hold makes the lock live as long again
    acquire x 300s mode=read
    PEXPIRE lock 100000
    renew x@lock:0s:read => 1 0 300s
    state => lock{mode=read x=1}/300s readers{x}/300s x:1=1/300s
a writer's renewal
    acquire x 100s mode=write
    renew x@lock:300s:write => 1 T1 300s
    renew y@lock:300s:write => HeldByAnother
    state => lock{mode=write x:write=1}/300s counter=T1/100000s
an exclusive lock is no read/write lock, nor is what another program left
    acquire x 100s
    acquire y 100s mode=read => error WrongKind
    acquire y 100s mode=write => error WrongKind
    release x 100s mode=read => error WrongKind
    release x 100s mode=write => error WrongKind
    release x 100s
    heard => 0
    SET lock 5
    acquire y 100s mode=read => error WrongKind
    acquire y 100s mode=write => error WrongKind
    renew y@lock:100s:read => Expired
a reader of another program is not cut off if readers of ours are listed that are gone
    acquire z 100s mode=read
    DEL lock
    HSET lock mode read y 1
    PEXPIRE lock 600000
    SET y:1 1 PX 600000
    acquire x 100s mode=read
    acquire a 100s mode=read
    release a 100s mode=read => done 0, now 0 0s
    state
      => lock{mode=read y=1 x=1}/600s readers{z=x}/100s x:1=1/100s y:1=1/600s and 1 other keys
    release x 100s mode=read => done 0, now 0 0s
    state => lock{mode=read y=1}/600s y:1=1/600s and 1 other keys
a full store: a hold that has more than is asked for does not stop the others
    acquire x 300s mode=read fresh=7
    acquire y 100s mode=read fresh=8 on=lock2
    full
    renew x@lock:100s:read y@lock2:200s:read => 1 0 300s, 1 0 200s
    state
      => lock{mode=read x=1}/300s lock2{mode=read y=1}/200s readers{x}/300s x:1=7/300s
      + and 2 other keys
a full store gives nothing and takes everything back
    acquire x 300s mode=write
    acquire x 300s mode=read
    acquire x 300s mode=read
    full
    acquire y 100s mode=read on=lock2 => error OutOfMemory
    acquire y 100s mode=write on=lock2 => error OutOfMemory
    renew x@lock:300s:write => 1 T1 300s
    release x 100s mode=write => done 0, now 0 300s
    heard => 1
    release x 100s mode=read => done 1, now 1 300s
    release x 100s mode=read => done 0, now 0 0s
    heard => 0
    state => counter=T1/100000s
";
