//! Acquires that carry a request id.

use super::lock_story::check;

tests! { #[tokio::test] fn acquire_repeated() = check(ROWS); }

const ROWS: &str = "
a grant is recorded
    acquire x 100s request=r1 attempt=a1 => granted 1 T1 100s
    state
      => lock{x=1}/100s counter=T1/100000s
      + record:r1{op=acquire owner=x attempt=a1 answer=T1}/600s
a repeat: the same grant and no change, but the record has no attempt and lives on
    acquire x 200s request=r1 attempt=a1 => granted 1 T1 200s
    PEXPIRE record:r1 100000
    PEXPIRE lock 100000
    acquire x 300s request=r1 attempt=a2 => repeated 1 T1 100s
    acquire x 300s request=r1 attempt=a2 known=0 => repeated 1 T1 100s
    state
      => lock{x=1}/100s counter=T1/100000s
      + record:r1{op=acquire owner=x attempt= answer=T1}/1300s
the answer to a repeat has the holds of now
    acquire x 100s request=r1
    acquire x 100s
    acquire x 100s request=r1 => repeated 2 T1 100s
    release x 100s
    acquire x 100s request=r1 => repeated 1 T1 100s
taking it again is recorded too
    acquire x 100s
    acquire x 200s request=r1 attempt=a1 => granted 2 T1 200s
    acquire x 200s request=r1 attempt=a2 => repeated 2 T1 200s
    state
      => lock{x=2}/200s counter=T1/100000s
      + record:r1{op=acquire owner=x attempt= answer=T1}/1400s
two requests are two holds
    acquire x 100s request=r1 => granted 1 T1 100s
    acquire x 100s request=r2 => granted 2 T1 100s
    acquire x 100s request=r1 => repeated 2 T1 100s
a repeat after the release
    acquire x 100s request=r1 attempt=a1
    release x 100s
    heard => 0
    acquire x 100s request=r1 attempt=a2 => error RequestOver
    state => counter=T1/100000s record:r1{op=acquire owner=x attempt=a1 answer=T1}/600s
a repeat after the release, while another owner holds the lock
    acquire x 100s request=r1 => granted 1 T1 100s
    DEL lock
    acquire z 100s => granted 1 T2 100s
    acquire x 100s request=r1 => error RequestOver
    state
      => lock{z=1}/100s counter=T2/100000s
      + record:r1{op=acquire owner=x attempt=a answer=T1}/600s
a repeat while the owner holds a newer grant
    acquire x 100s request=r1 => granted 1 T1 100s
    DEL lock
    acquire x 100s => granted 1 T2 100s
    acquire x 100s request=r1 => error RequestOver
    state
      => lock{x=1}/100s counter=T2/100000s
      + record:r1{op=acquire owner=x attempt=a answer=T1}/600s
a repeat after the counter was lost
    acquire x 100s request=r1
    DEL counter
    acquire x 100s request=r1 => error RequestOver
    state => lock{x=1}/100s record:r1{op=acquire owner=x attempt=a answer=T1}/600s
after the retention it is a new request
    acquire x 100s request=r1 => granted 1 T1 100s
    DEL record:r1
    acquire x 100s request=r1 => granted 2 T1 100s
a request id of another owner
    acquire x 100s request=r1
    acquire y 100s request=r1 => error RequestIdReused
    state
      => lock{x=1}/100s counter=T1/100000s
      + record:r1{op=acquire owner=x attempt=a answer=T1}/600s
a request id of another operation
    acquire x 100s
    release x 100s request=r1
    heard => 0
    acquire x 100s request=r1 => error RequestIdReused
    state => counter=T1/100000s record:r1{op=release owner=x answer=0}/600s
a refusal is an answer to a call that does not wait, and to no other
    acquire z 200s
    acquire x 100s request=r1 attempt=a1 recorded => busy 200s
    state
      => lock{z=1}/200s counter=T1/100000s
      + record:r1{op=acquire owner=x attempt=a1 answer=busy 200s}/600s
    DEL lock
    acquire x 100s request=r1 attempt=a2 recorded => busy 200s
    acquire x 100s request=r1 attempt=a2 => error RequestIdReused
    state
      => counter=T1/100000s record:r1{op=acquire owner=x attempt=a1 answer=busy 200s}/600s
a recorded refusal by a lock without a time to live
    HSET lock z 1
    acquire x 100s request=r1 recorded => busy endless
    DEL lock
    acquire x 100s request=r1 recorded => busy endless
a refusal is no answer to a caller that waits
    acquire z 100s
    acquire x 100s request=r1 => busy 100s
    state => lock{z=1}/100s counter=T1/100000s
    DEL lock
    acquire x 100s request=r1 => granted 1 T2 100s
a record that only an undo will look for is kept as long as the lease
    acquire x 100s request=r1 attempt=r1
    acquire x 900s request=r2 attempt=r2
    state => lock{x=2}/900s counter=T1/100000s
      + record:r1{op=acquire owner=x attempt=r1 answer=T1}/100s
      + record:r2{op=acquire owner=x attempt=r2 answer=T1}/900s
a repeat on a key that is no lock any more
    acquire x 100s request=r1
    HSET lock mode read
    acquire x 100s request=r1 => error WrongKind
    DEL lock
    RPUSH lock a
    acquire x 100s request=r1 => error WrongKind
    DEL lock
    SET counter many
    acquire x 100s request=r1 => error WrongKind
    state => counter=many/endless record:r1{op=acquire owner=x attempt=a answer=T1}/600s
out of memory: a repeat is answered, because its grant exists
    acquire x 100s request=r1 attempt=a1
    full
    acquire x 100s request=r1 attempt=a2 => repeated 1 T1 100s
    state
      => lock{x=1}/100s counter=T1/100000s
      + record:r1{op=acquire owner=x attempt= answer=T1}/1300s
";
