//! Locks that stay closed for a time after a loss.

use super::lock_story::check;

tests! { #[tokio::test] fn lock_delay() = check(ROWS); }

const ROWS: &str = r#"
the store keeps it for longer than the lease, and a release frees it at once
    acquire x 300s delay=200s => granted 1 T1 300s
    HGET lock lockkeeper_delay:x => 200s
    inspect => x=1 T1 500s
    walk / => lock=Lock
    acquire y 300s => busy 500s
    release x 300s => done 0, now 0 300s
    heard => 0
    acquire y 300s => granted 1 T2 300s
    state => lock{y=1}/300s counter=T2/100000s
a renewal keeps the delay, and answers with the lease only
    acquire x 300s delay=200s => granted 1 T1 300s
    renew x@lock:600s => 1 T1 600s
    renew x@lock:100s => 1 T1 600s
    acquire y 300s => busy 800s
after the lease nobody gets it, not even the former holder, which may still release it
    acquire x 300s delay=200s => granted 1 T1 300s
    PEXPIRE lock 100000
    acquire y 300s => busy 100s
    acquire x 300s => busy 100s
    acquire x 300s known=1 => busy 100s
    acquire_all x 300s lock => busy at 0 100s
    renew x@lock:300s => Expired
    inspect => x=1 T1 100s
    release x 300s => done 0, now 0 300s
    heard => 0
    acquire y 300s => granted 1 T2 300s
of several holds each has the delay, and after the lease only the last can be released
    acquire x 300s delay=200s => granted 1 T1 300s
    acquire x 400s delay=900s => granted 2 T1 400s
    acquire_all x 400s lock => granted 3 T1 400s
    acquire y 300s => busy 600s
    release x 300s => done 2, now 2 400s
    release_all x 400s lock => done 1, now 1 400s
    acquire x 100s => granted 2 T1 400s
    acquire y 300s => busy 600s
    PEXPIRE lock 100000
    release x 300s => Expired
    acquire y 300s => busy 100s
of a fair lock, whose queue waits for it
    acquire x 300s mode=fair delay=200s => granted 1 T1 300s
    acquire y 300s mode=fair waits => busy 500s place 1
    PEXPIRE lock 100000
    acquire y 300s mode=fair waits => busy 100s place 1
    release x 300s mode=fair
    heard => 0:y
    acquire y 300s mode=fair known=0 => granted 1 T2 300s
the end of a session is a release, and so is an undo
    acquire x 300s delay=200s => granted 1 T1 300s
    lower x 0 serial=1800000000000000 => true
    heard => 0
    acquire y 300s request=r1 attempt=b delay=200s => granted 1 T2 300s
    undo y request=r1 attempt=b => true
    heard => 0
    acquire x 300s delay=200s => granted 1 T3 300s
    undo x => true
    heard => 0
    state => counter=T3/100000s
a repeat finds the grant until its lease ends
    acquire x 300s delay=200s request=r1 => granted 1 T1 300s
    acquire x 300s delay=200s request=r1 => repeated 1 T1 300s
    PEXPIRE lock 200000
    acquire x 300s delay=200s request=r1 => error RequestOver
it goes with a note and with a time that the lock is held at least
    acquire x 300s delay=100s note=why => granted 1 T1 300s
    acquire y 300s => busy 400s "why"
    release x 300s noted
    heard => 0
    acquire x 300s least=200s delay=100s => granted 1 T2 300s
    walk / => lock=Lock
    inspect => x=1 T2 400s
    release x 300s
    heard => 0
    HLEN lock => 1
    HEXISTS lock lockkeeper_least:x => 1
    acquire y 300s => busy 200s
it is handed on to nobody, and a release by force ends it
    acquire x 300s delay=200s => granted 1 T1 300s
    hand_on x y 300s => nothing
    force why 500s => x=1 T1 none
    heard => 0
    acknowledge x => open
    heard => 0
    acquire y 300s => granted 1 T2 300s
"#;
