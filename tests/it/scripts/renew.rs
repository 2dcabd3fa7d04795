//! Extending many leases at once. (Each row checks that the reply begins with the store's clock.)

use super::lock_story::check;

tests! { #[tokio::test] fn renew() = check(ROWS); }

const ROWS: &str = "
a batch of nothing asks whether the store answers
    renew => nothing
    state => nothing
one that is held is extended
    acquire x 100s
    acquire x 100s
    renew x@lock:200s => 2 T1 200s
    state => lock{x=2}/200s counter=T1/100000s
a lease is never shortened
    acquire x 300s
    renew x@lock:100s => 1 T1 300s
    state => lock{x=1}/300s counter=T1/100000s
one that is gone, another owner's and a key of another kind do not stop the rest
    acquire x 100s
    acquire z 100s on=lock2
    RPUSH lock4 a
    renew z@lock4:200s x@lock3:200s x@lock2:200s x@lock:200s
      => HeldByAnother, Expired, HeldByAnother, 1 T1 200s
    state
      => lock{x=1}/200s lock2{z=1}/100s lock4{a}/endless counter=T1/100000s
      + counter2=T2/100000s
of several that are held each has its own lease, holds and token
    acquire x 100s
    acquire y 100s on=lock2
    acquire y 100s on=lock2
    renew x@lock:200s y@lock2:300s => 1 T1 200s, 2 T2 300s
    state => lock{x=1}/200s lock2{y=2}/300s counter=T1/100000s counter2=T2/100000s
one lock twice in a batch
    acquire x 100s
    renew x@lock:300s y@lock:400s x@lock:200s => 1 T1 300s, HeldByAnother, 1 T1 300s
    state => lock{x=1}/300s counter=T1/100000s
a lock without a time to live gets one
    HSET lock a-b-c-d-e 1
    renew a-b-c-d-e@lock:100s => 1 0 100s
    state => lock{a-b-c-d-e=1}/100s
a counter with less than half of its time gets all of it, so that it outlives the grant
    acquire x 100s
    PEXPIRE counter 60000000
    renew x@lock:100s
    state => lock{x=1}/100s counter=T1/60000s
    PEXPIRE counter 400000
    renew x@lock:100s
    state => lock{x=1}/100s counter=T1/100000s
a counter without a time to live stays without
    SET counter 7
    acquire x 100s
    renew x@lock:200s => 1 T1 200s
    state => lock{x=1}/200s counter=T1/endless
retention 0 leaves counters as they are
    acquire x 100s
    retention 0s
    renew x@lock:200s => 1 T1 200s
    state => lock{x=1}/200s counter=T1/100000s
without a counter the token is not known, and none is made
    acquire x 100s
    DEL counter
    renew x@lock:200s => 1 0 200s
    state => lock{x=1}/200s
what hold and counter say does not stop a renewal
    HSET lock a-b-c-d-e many
    SET counter many
    HSET lock2 a-b-c-d-e 1
    RPUSH counter2 a
    renew a-b-c-d-e@lock:100s a-b-c-d-e@lock2:100s => 1 0 100s, 1 0 100s
    state
      => lock{a-b-c-d-e=many}/100s lock2{a-b-c-d-e=1}/100s counter=many/endless
      + counter2{a}/endless
out of memory: renewing works
    acquire x 100s
    PEXPIRE counter 400000
    full
    renew x@lock:200s x@lock2:200s => 1 T1 200s, Expired
    state => lock{x=1}/200s counter=T1/100000s
";
