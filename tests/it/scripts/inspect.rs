//! Who holds a lock.

use super::lock_story::check;

tests! { #[tokio::test] fn inspect() = check(ROWS); }

const ROWS: &str = r"
nobody, never
    inspect => 0 none
    state => nothing
nobody any more: the token stays known
    acquire x 100s
    DEL lock
    inspect => T1 none
one owner
    acquire x 100s
    acquire x 200s
    inspect => x=2 T1 200s
    state => lock{x=2}/200s counter=T1/100000s
a lock of Redisson, without a token
    HSET lock 8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:47 1
    PEXPIRE lock 100000
    inspect => 8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:47=1 0 100s
no time to live
    HSET lock x 1
    SET counter 7
    inspect => x=1 7 none
several owners, and some that are no text
    HSET lock x 1 \xff\x00y 2
    inspect => x=1 \xff\x00y=2 0 none
counts that are too large or below zero are shown as the nearest
    HSET lock x 99999999999 y -1
    inspect => x=4294967295 y=0 0 none
what is no lock
    RPUSH lock a
    inspect => error WrongKind
    DEL lock
    SET lock a
    inspect => error WrongKind
    DEL lock
    HSET lock mode 1
    inspect => error WrongKind
    DEL lock
    HSET lock x many
    inspect => error WrongKind
    state => lock{x=many}/endless
what is no counter
    acquire x 100s
    SET counter many
    inspect => error WrongKind
    DEL counter
    RPUSH counter a
    inspect => error WrongKind
    state => lock{x=1}/100s counter{a}/endless
out of memory
    acquire x 100s
    full
    inspect => x=1 T1 100s
";
