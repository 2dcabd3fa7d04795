//! Semaphores: taking permits, giving them back, and what becomes of those of holders that crashed.

use super::counter_story::check;

tests! {
    #[tokio::test] fn permits_are_taken_and_given_back() = check(TAKEN);
    #[tokio::test] fn leases_of_permits_end() = check(LEASES);
    #[tokio::test] fn semaphores_are_made_and_resized() = check(SIZES);
    #[tokio::test] fn acquires_of_permits_are_repeated_and_undone() = check(REPEATS);
}

const TAKEN: &str = "
taken, and every key but the counters has a time to live
    set 3 => made 3 of 3
    heard => 3
    take x 100s a,c => granted a,c 100s left 1
    state
      => n=1/endless leases{a=100s c=100s}/endless owners{a=x c=x}/100s kind=semaphore/100000s
    holders => 1 of 3 'x'=2/100s
    give x a,c => given 2, left 3
    heard => 3
    state => n=3/endless kind=semaphore/100000s
    holders => 3 of 3
too few are free
    set 2
    heard
    take x 100s a
    take y 200s b,c => busy, left 1, next 100s
    take y 200s b => granted b 200s left 0
    take z 300s c => busy, left 0, next 100s
    holders => 0 of 2 'x'=1/100s 'y'=1/200s
    state
      => n=0/endless leases{a=100s b=200s}/endless owners{a=x b=y}/200s kind=semaphore/100000s
more than there are
    set 2
    heard
    take x 100s a
    take y 100s b,c,d => too many of 2
    set 1
    heard => 0
    take y 100s b,c => too many of 1
no semaphore
    take x 100s a => no semaphore
    give x a => Expired
    give x all => NeverHeld
    undo a => false
    renew x@n:100s:a => Expired
    holders => 0 of 0
    state => nothing
the same owner takes more, and gives back some or all
    set 5
    heard
    take x 100s a,b
    take x 200s c,d
    take y 100s e
    give x b => given 1, left 1
    heard => 1
    holders => 1 of 5 'x'=3/200s 'y'=1/100s
    give x all => given 3, left 4
    heard => 4
    holders => 4 of 5 'y'=1/100s
    give x all => NeverHeld
all or none, and the owner's only
    set 3
    heard
    take x 100s a
    take y 100s b
    give x a,b => HeldByAnother
    give x a,c => Expired
    give y a => HeldByAnother
    holders => 1 of 3 'x'=1/100s 'y'=1/100s
    renew x@n:300s:a,b y@n:300s:b x@n:300s:c => HeldByAnother 300s Expired
    holders => 1 of 3 'x'=1/100s 'y'=1/300s
out of memory: nothing is taken, but permits are given back and renewed
    set 3
    heard
    take x 100s a
    take x 100s b request=r1
    full
    take y 100s c => error OutOfMemory
    set 4 => error OutOfMemory
    heard => 2
    renew x@n:300s:a => 300s
    undo b request=r1 => true
    heard => 2
    give x a request=r2 => given 1, left 3
    heard => 3
";

const LEASES: &str = "
a crashed holder's permits go to who asks next, and others hear of what is left
    set 3
    heard
    take x 100s a,b,c
    expire a,b
    holders => 2 of 3 'x'=1/100s
    take y 100s d => granted d 100s left 1
    heard => 1
    state
      => n=1/endless leases{c=100s d=100s}/endless owners{c=x d=y}/100s kind=semaphore/100000s
swept also if they are too few
    set 3
    heard
    take x 100s a,b,c
    expire a
    take y 100s d,e => busy, left 1, next 100s
    heard => 1
    state
      => n=1/endless leases{b=100s c=100s}/endless owners{b=x c=x}/100s kind=semaphore/100000s
an expired permit is nobody's
    set 2
    heard
    take x 100s a
    expire a
    give x a => Expired
    give x all => NeverHeld
    renew x@n:100s:a => Expired
    undo a => false
    holders => 2 of 2
    take y 100s b
    heard => 1
    give y b => given 1, left 2
    heard => 2
    state => n=2/endless kind=semaphore/100000s
given back together with what has expired
    set 3
    heard
    take x 100s a,b,c
    expire b
    give x a => given 1, left 2
    heard => 2
    state => n=2/endless leases{c=100s}/endless owners{c=x}/100s kind=semaphore/100000s
renewed: never shortened, each grant as a whole, several at once
    set 3
    heard
    set 1 on=m
    heard
    take x 200s a,b
    take x 100s c
    take y 100s d on=m
    renew x@n:100s:a,b x@n:300s:c y@m:400s:d => 200s 300s 400s
    state
      => n=0/endless leases{a=200s b=200s c=300s}/endless
      + owners{a=x b=x c=x}/300s kind=semaphore/100000s
      + m:m=0/endless m:leases{d=400s}/endless m:owners{d=y}/400s m:kind=semaphore/100000s
    give x b
    heard => 1
    renew x@n:500s:a,b x@n:500s:a => Expired 500s
what is wrong with one semaphore does not stop the renewal of others
    set 1
    heard
    take x 100s a
    SET m 1
    renew x@m:200s:b x@n:200s:a => Expired 200s
a semaphore with a time to live takes its permits with it
    set 2
    heard
    PEXPIRE n 100000
    take x 300s a => granted a 100s left 1
    state => n=1/100s leases{a=100s}/100s owners{a=x}/100s kind=semaphore/100000s
    renew x@n:300s:a => 100s
    set 3 => set 2 of 3
    heard => 2
    state => n=2/100s leases{a=100s}/100s owners{a=x}/100s kind=semaphore/100000s
";

const SIZES: &str = "
only if there is none
    set 2 absent => made 2 of 2
    heard => 2
    take x 100s a
    set 9 absent => set 1 of 2
    holders => 1 of 2 'x'=1/100s
larger and smaller
    set 2
    heard
    take x 100s a,b
    set 5 => set 3 of 5
    heard => 3
    set 5 => set 3 of 5
    heard => 3
    set 3 => set 1 of 3
    heard => 1
smaller than what is taken: nothing negative is published, nothing free before enough
    set 3
    heard
    take x 100s a,b,c
    set 1 => set -2 of 1
    heard => 0
    take y 100s d => busy, left 0, next 100s
    give x a => given 1, left 0
    give x b => given 1, left 0
    holders => 0 of 1 'x'=1/100s
    give x c => given 1, left 1
    heard => 1
    holders => 1 of 1
what has expired is swept
    set 3
    heard
    take x 100s a,b,c
    expire a,b
    set 4 => set 3 of 4
    heard => 3
    state => n=3/endless leases{c=100s}/endless owners{c=x}/100s kind=semaphore/100000s
to nothing: it goes when nothing is taken
    set 3
    heard
    take x 100s a
    set 0 => set -1 of 0
    heard => 0
    take y 100s b => too many of 0
    give x a => given 1, left 0
    set 0 => set 0 of 0
    heard => 0
    state => nothing
    take y 100s b => no semaphore
one whose counter is gone comes back without what is taken
    set 3
    heard
    take x 100s a
    DEL n
    take y 100s b => no semaphore
    set 3 => made 2 of 3
    heard => 2
    DEL n
    give x a => given 1, left 0
    state => kind=semaphore/100000s
one whose counter is gone may become something else, if none of its permits is taken
    set 3
    heard => 3
    DEL n
    take y 100s b => no semaphore
    state => nothing
";

const REPEATS: &str = "
a repeat gets the first permits, and no undo takes them away any more
    set 3
    heard
    take x 100s a,b request=r1 attempt=1 => granted a,b 100s left 1
    state
      => n=1/endless leases{a=100s b=100s}/endless owners{a=x b=x}/100s kind=semaphore/100000s
      + record:r1{op=acquire_permits owner=x attempt=1 answer=a,b}/600s
    take x 300s c,d request=r1 attempt=2 => repeated a,b 100s left 1
    undo a,b request=r1 attempt=1 => false
    undo c,d request=r1 attempt=2 => false
    holders => 1 of 3 'x'=2/100s
a record that ended before the lease: the permits are known by their ids
    set 3
    heard => 3
    take x 100s a,b request=r1 attempt=1 => granted a,b 100s left 1
    DEL record:r1
    undo a,b request=r1 attempt=1 => true
    heard => 3
    undo a,b request=r1 attempt=1 => false
the id of another request
    set 3
    heard
    take x 100s a request=r1
    take y 100s b request=r1 => error RequestIdReused
    take x 100s b,c request=r1 => error RequestIdReused
    give x a request=r1 => error RequestIdReused
    give x a request=r2 => given 1, left 3
    heard => 3
    take x 100s a request=r2 => error RequestIdReused
    take x 100s b request=r1 => error RequestOver
    give x a request=r2 => repeated 1, left 3
    give y a request=r2 => error RequestIdReused
    take x 100s b,c
    give x b request=r2 => error RequestIdReused
    give x all request=r2 => error RequestIdReused
    holders => 1 of 3 'x'=2/100s
    HDEL record:r2 permits
    give x b request=r2 => repeated 1, left 1
refusals are answers to a try only
    set 1
    heard
    take z 300s c
    take x 100s a request=r1 recorded => busy, left 0, next 300s
    give z c
    heard => 1
    take x 100s a request=r1 recorded => busy, left 0, next 300s
    take x 100s a request=r1 => error RequestIdReused
    take x 100s a request=r2 => granted a 100s left 0
undone: the permits are free, waiters are notified, and again there is nothing to undo
    set 3
    heard
    take x 100s a,b => granted a,b 100s left 1
    take x 100s c
    undo a,b => true
    heard => 2
    undo a,b => false
    holders => 2 of 3 'x'=1/100s
undone by record: it can be made again
    set 3
    heard
    take x 100s a request=r1 attempt=1
    undo a request=r1 attempt=2 => false
    undo a request=r1 attempt=1 => true
    heard => 3
    undo a request=r1 attempt=1 => false
    take x 100s b request=r1 attempt=2 => granted b 100s left 2
an undo of what never ran
    set 3
    heard
    undo a => false
    undo a request=r1 => false
    state => n=3/endless kind=semaphore/100000s
";
