//! What owners say of their holds.

use super::lock_story::check;

tests! { #[tokio::test] fn notes() = check(ROWS); }

const ROWS: &str = r#"
a note lives as long as the lock, is shown to others, and goes with the lock
    acquire x 100s note=deploy
    state => lock{x=1}/100s counter=T1/100000s note{note=deploy owner=x serial=T1}/100s
    acquire y 100s => busy 100s "deploy"
    inspect => x=1 "deploy" T1 100s
    renew x@lock:300s
    state => lock{x=1}/300s counter=T1/100000s note{note=deploy owner=x serial=T1}/300s
    release x 100s noted => done 0, now 0 100s
    state => counter=T1/100000s
    heard => 0
labels
    acquire x 100s known=0 note=deploy,team=web
    acquire y 100s => busy 100s "deploy,team=web"
    inspect => x=1 "deploy,team=web" T1 100s
one more hold keeps the note and its time, or replaces it
    acquire x 100s note=deploy
    acquire x 300s
    acquire y 100s => busy 300s "deploy"
    acquire x 100s note=rollback
    acquire y 100s => busy 300s "rollback"
    release x 100s
    state => lock{x=2}/300s counter=T1/100000s note{note=rollback owner=x serial=T1}/300s
a note of an owner that lost the lock is not shown, whatever it does next
    acquire x 100s note=deploy
    DEL lock
    acquire y 100s known=0
    acquire z 100s => busy 100s
    DEL lock
    acquire x 100s known=0
    acquire z 100s => busy 100s
    inspect => x=1 T3 100s
a lock that Redisson holds now has no note, although its counter is the same
    acquire x 100s note=deploy
    DEL lock
    HSET lock 8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:47 1
    PEXPIRE lock 100000
    acquire y 100s => busy 100s
    inspect => 8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:47=1 T1 100s
a hand-on leaves none to the next owner
    acquire x 100s note=deploy
    hand_on x y 100s => T2
    acquire z 100s => busy 100s
    inspect => y=1 T2 100s
an undo takes it back
    acquire x 100s request=r1 attempt=a1 note=deploy
    undo x request=r1 attempt=a1 => true
    state => counter=T1/100000s
    heard => 0
a release by force takes it away
    acquire x 100s note=deploy
    force burns
    state => counter=T2/100000s forced{token=T1 reason=burns}/600s
    heard => 0
a repeat of a request changes nothing
    acquire x 100s request=r1 note=deploy
    acquire x 100s request=r1 note=rollback => repeated 1 T1 100s
    inspect => x=1 "deploy" T1 100s
a fair lock: its waiters are shown it when they keep their places
    acquire x 100s mode=fair note=deploy
    acquire y 100s mode=fair waits => busy 100s place 1 "deploy"
    vouch y => 100s, places 1 "deploy"
    release x 100s mode=fair noted
    vouch y => none, places 1
    acquire y 100s mode=fair => granted 1 T2 100s
    inspect => y=1 T2 100s
    heard => 0:y 0:y
readers each have their own, and a writer is shown one of them
    acquire x 100s mode=read fresh=5 known=0
    acquire y 200s mode=read fresh=6 known=0 note=report
    acquire z 100s mode=write => busy 200s "report"
    inspect => x=1(Read 100s) y=1(Read 200s) "report" 0 200s
    acquire x 100s mode=read note=index
    inspect => x=2(Read 100s) "index" y=1(Read 200s) "report" 0 200s
    renew x@lock:300s:read y@lock:300s:read
    state => lock{mode=read x=2 y=1}/300s x:note{note=index owner=x serial=5}/300s
      + y:note{note=report owner=y serial=6}/300s readers{x=y}/300s x:1=5/100s x:2=5/300s y:1=6/300s
    release x 100s mode=read noted
    release x 100s mode=read noted
    release y 100s mode=read noted
    state => nothing
    heard => 0
a reader's note of an earlier grant is not shown
    acquire x 100s mode=read fresh=5 known=0 note=report
    HDEL lock x
    DEL x:1
    acquire y 100s mode=read fresh=6 known=0
    acquire x 100s mode=read fresh=7 known=0
    inspect => y=1(Read 100s) x=1(Read 100s) 0 100s
a writer's, which goes when its reads stay
    acquire x 100s mode=write note=migrate
    acquire y 100s mode=read => busy 100s "migrate"
    acquire y 100s mode=write => busy 100s "migrate"
    acquire x 100s mode=read
    inspect => x=1(Write 100s) "migrate" x=1(Read 100s) T1 100s
    release x 100s mode=write noted
    state => lock{mode=read x=1}/100s counter=T1/100000s readers{x}/100s x:1=1/100s
    heard => 1
several locks have the same, and each its own key
    acquire_all x lock lock2:read lock3:write 100s note=deploy
    acquire_all y lock4 lock2:write 100s => busy at 1 100s "deploy"
    acquire y 100s on=lock3 mode=read => busy 100s "deploy"
    acquire y 100s => busy 100s "deploy"
    release_all x lock lock2:read lock3:write 100s
    acquire_all z lock lock2:write lock3:write 100s attempt=b
    acquire y 100s => busy 100s
    heard => 0 0 1
what is no note is not shown, and does not keep a lock from its owner
    SET note deploy
    acquire x 100s => granted 1 T1 100s
    acquire y 100s => busy 100s
    acquire x 100s note=deploy
    acquire y 100s => busy 100s "deploy"
"#;
