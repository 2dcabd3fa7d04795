//! Locks that are held at least for a time.

use super::lock_story::check;

tests! { #[tokio::test] fn held_at_least() = check(ROWS); }

const ROWS: &str = r#"
a release before the time leaves it held by a mark, also for the same owner
    acquire x 300s least=200s => granted 1 T1 300s
    inspect => x=1 T1 300s
    walk / => lock=Lock
    release x 300s
    heard => 0
    HEXISTS lock x => 0
    HEXISTS lock lockkeeper_least:x => 1
    acquire y 300s => busy 200s
    acquire x 300s => busy 200s
    inspect => lockkeeper_least:x=1 T1 200s
    walk / => lock=Lock
of a fair lock, whose queue waits for it
    acquire x 300s mode=fair least=200s => granted 1 T1 300s
    acquire y 300s mode=fair waits => busy 300s place 1
    release x 300s mode=fair
    heard => 0:y
    acquire y 300s mode=fair waits => busy 200s place 1
the last of several holds counts, and others cannot add to the time
    acquire x 300s least=200s => granted 1 T1 300s
    acquire x 300s least=300s => granted 2 T1 300s
    release x 300s
    inspect => x=1 T1 300s
    release x 300s
    heard => 0
    acquire y 300s => busy 200s
the end of a session is a release
    acquire x 300s least=200s => granted 1 T1 300s
    lower x 0 serial=1800000000000000 => true
    heard => 0
    acquire y 300s => busy 200s
an attempt that nobody got leaves nothing
    acquire x 300s least=200s => granted 1 T1 300s
    undo x => true
    heard => 0
    acquire y 300s least=200s request=r1 attempt=b => granted 1 T2 300s
    undo y request=r1 attempt=b => true
    heard => 0
    acquire z 300s => granted 1 T3 300s
a note goes with the grant, and a grant without a note needs none
    acquire x 300s least=200s note=why => granted 1 T1 300s
    acquire y 300s => busy 300s "why"
    release x 300s noted
    heard => 0
    acquire y 300s => busy 200s
it is handed on to nobody, and renewed as any other
    acquire x 300s least=200s => granted 1 T1 300s
    hand_on x y 300s => nothing
    renew x@lock:600s => 1 T1 600s
    inspect => x=1 T1 600s
a release by force frees it
    acquire x 300s least=200s => granted 1 T1 300s
    force why 100s => x=1 T1 none
    heard => 0
    acknowledge x => open
    heard => 0
    acquire y 300s least=200s => granted 1 T2 300s
    release y 300s
    heard => 0
    force why 100s => lockkeeper_least:y=1 T2 none
    heard => 0
    acquire z 300s => granted 1 T3 300s
"#;
