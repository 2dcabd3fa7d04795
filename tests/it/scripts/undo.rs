//! Undoing an acquire whose answer nobody took.

use super::lock_story::check;

tests! { #[tokio::test] fn undo() = check(ROWS); }

const ROWS: &str = "
by record: the lock is free, a waiter woken, the record gone; again nothing to undo
    acquire x 100s request=r1 attempt=a1
    undo x request=r1 attempt=a1 => true
    heard => 0
    state => counter=T1/100000s
    undo x request=r1 attempt=a1 => false
    state => counter=T1/100000s
by record: one hold of several
    acquire x 300s
    acquire x 100s request=r1 attempt=a1
    PEXPIRE lock 200000
    undo x request=r1 attempt=a1 => true
    state => lock{x=1}/200s counter=T1/100000s
by a record that only the undo looks for: it lives as long as the holds
    acquire x 300s
    acquire x 100s request=a1 attempt=a1
    PTTL record:a1 => 300s
    undo x request=a1 attempt=a1 known=1 => true
    acquire x 400s request=a2 attempt=a2
    PTTL record:a2 => 400s
the same of a fair lock, of a writer and of a reader
    acquire x 300s mode=fair
    acquire x 100s mode=fair request=a1 attempt=a1
    PTTL record:a1 => 300s
    DEL lock
    acquire x 300s mode=write
    acquire x 100s mode=write request=a2 attempt=a2
    PTTL record:a2 => 300s
    DEL lock
    acquire x 300s mode=read
    acquire x 100s mode=read request=a3 attempt=a3
    PTTL record:a3 => 300s
by record: another attempt's
    acquire x 100s request=r1 attempt=a1
    undo x request=r1 attempt=a2 => false
    state
      => lock{x=1}/100s counter=T1/100000s
      + record:r1{op=acquire owner=x attempt=a1 answer=T1}/600s
by record: a repeat was answered with the grant too, so nobody knows who relies on it
    acquire x 100s request=r1 attempt=a1
    acquire x 100s request=r1 attempt=a2 => repeated 1 T1 100s
    undo x request=r1 attempt=a1 => false
    undo x request=r1 attempt=a2 => false
of a grant that has ended, when the owner has a newer one
    acquire x 100s
    undo x serial=1 => false
    lower x 0 => true
    heard => 0
by record: an undone request can be made again
    acquire x 100s request=r1 attempt=a1
    undo x request=r1 attempt=a1 => true
    heard => 0
    acquire x 100s request=r1 attempt=a2 => granted 1 T2 100s
by record: it never ran
    undo x request=r1 attempt=a1 => false
    acquire x 100s
    undo x request=r1 attempt=a1 => false
    state => lock{x=1}/100s counter=T1/100000s
a record that ended before the grant: the attempt began the grant, as its serial says
    acquire x 100s request=r1 attempt=a1 => granted 1 T1 100s
    DEL record:r1
    undo x request=r1 attempt=a1 known=0 => false
    undo x request=r1 attempt=a1 serial=T1 => false
    acquire x 100s
    undo x request=r1 attempt=a1 known=0 serial=T1 => true
    state => lock{x=1}/100s counter=T1/100000s
    undo x request=r1 attempt=a1 known=0 serial=T1 => true
    heard => 0
    undo x request=r1 attempt=a1 known=0 serial=T1 => false
    acquire x 100s => granted 1 T2 100s
    undo x request=r1 attempt=a1 known=0 serial=T1 => false
    state => lock{x=1}/100s counter=T2/100000s
the same of a fair lock, of a writer and of a reader
    acquire x 100s mode=fair request=r1 => granted 1 T1 100s
    DEL record:r1
    undo x mode=fair request=r1 known=0 serial=T1 => true
    acquire x 100s mode=write request=r1 => granted 1 T2 100s
    DEL record:r1
    undo x mode=write request=r1 known=0 serial=T2 => true
    heard => 1
    acquire x 100s mode=read request=r1 fresh=7
    DEL record:r1
    undo x mode=read request=r1 known=0 serial=8 => false
    undo x mode=read request=r1 known=0 serial=7 => true
    heard => 0
    state => counter=T2/100000s
a record that ended before the grant: nothing shows whose one hold of several is
    acquire x 300s => granted 1 T1 300s
    acquire x 100s request=r1 attempt=a1
    DEL record:r1
    undo x request=r1 attempt=a1 known=1 serial=T1 => false
    state => lock{x=2}/300s counter=T1/100000s
by record: it was released already
    acquire x 100s request=r1 attempt=a1
    release x 100s
    heard => 0
    undo x request=r1 attempt=a1 => false
    state => counter=T1/100000s
by record: the lock is another owner's
    acquire x 100s request=r1 attempt=a1
    DEL lock
    acquire z 100s
    undo x request=r1 attempt=a1 => false
    state => lock{z=1}/100s counter=T2/100000s
by record: the owner has been granted the lock anew
    acquire x 100s request=r1 attempt=a1 => granted 1 T1 100s
    DEL lock
    acquire x 100s => granted 1 T2 100s
    undo x request=r1 attempt=a1 => false
    state => lock{x=1}/100s counter=T2/100000s
by record: the attempt was refused, and the owner granted the lock later
    acquire z 100s
    acquire x 100s request=r1 attempt=a1 recorded => busy 100s
    DEL lock
    acquire x 100s => granted 1 T2 100s
    undo x request=r1 attempt=a1 => false
    state => lock{x=1}/100s counter=T2/100000s
by record: that of a release
    acquire x 100s
    acquire x 100s
    release x 100s request=r1
    undo x request=r1 attempt=a1 => false
    state => lock{x=1}/100s counter=T1/100000s record:r1{op=release owner=x answer=1}/600s
by holds: down to those that are known
    acquire x 100s
    acquire x 100s
    undo x known=1 => true
    state => lock{x=1}/100s counter=T1/100000s
    undo x known=1 => false
    undo x known=2 => false
    state => lock{x=1}/100s counter=T1/100000s
    undo x known=0 => true
    heard => 0
    undo x known=0 => false
    state => counter=T1/100000s
lowered by several, the lock is freed once
    acquire x 300s
    acquire x 300s
    acquire x 300s
    acquire x 300s
    PEXPIRE lock 200000
    lower x 2 => true
    state => lock{x=2}/200s counter=T1/100000s
    lower x 0 => true
    heard => 0
    lower x 0 => false
    state => counter=T1/100000s
another owner's holds stay
    acquire z 100s
    lower x 0 => false
    state => lock{z=1}/100s counter=T1/100000s
a lock without a time to live stays without
    HSET lock a-b-c-d-e 3
    lower a-b-c-d-e 1 => true
    state => lock{a-b-c-d-e=1}/endless
    lower a-b-c-d-e 0 => true
    heard => 0
what is no lock stays as it is
    HSET lock mode read x:write 1
    lower x 0 => error WrongKind
    state => lock{mode=read x:write=1}/endless
    DEL lock
    HSET lock x many
    lower x 0 => error WrongKind
    state => lock{x=many}/endless
    DEL lock
    RPUSH lock a
    lower x 0 => error WrongKind
    undo x request=r1 => error WrongKind
    state => lock{a}/endless
a record or a counter that is none
    acquire x 100s request=r1 attempt=a1
    SET counter many
    undo x request=r1 attempt=a1 => error WrongKind
    DEL counter
    RPUSH counter a
    undo x request=r1 attempt=a1 => error WrongKind
    SET record:r1 a
    undo x request=r1 attempt=a1 => error WrongKind
    state => lock{x=1}/100s counter{a}/endless record:r1=a/endless
out of memory: undoing works
    acquire x 100s
    acquire x 100s
    acquire x 100s request=r1 attempt=a1
    full
    undo x request=r1 attempt=a1 => true
    state => lock{x=2}/100s counter=T1/100000s
    lower x 1 => true
    lower x 0 => true
    heard => 0
    state => counter=T1/100000s
out of memory: a lock without a time to live is lowered too
    HSET lock a-b-c-d-e 2
    full
    lower a-b-c-d-e 1 => true
    state => lock{a-b-c-d-e=1}/endless
";
