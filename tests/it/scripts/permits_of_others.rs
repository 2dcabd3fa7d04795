//! Semaphores with permits of Redisson clients, and keys that are no semaphore.

use lockkeeper_store::script::{CallError, Config, Scripts};

use super::requests::permit_attempt;
use super::{counter_story::check, story::config};
use crate::support::hosts::HOSTS;
use crate::support::prelude::*;

/// A number that any program may keep is neither a semaphore nor a latch, unless it was said that
/// Redisson's clients make such.
#[tokio::test]
async fn numbers_of_other_programs_are_left_alone() {
    for host in HOSTS {
        let store = host.start().await;
        let (client, _wakes) = store.connect();
        let config = Config {
            adopts_counters: false,
            native_commands: false,
            ..config()
        };
        let scripts = Scripts::new(client, config);
        store.command(&["SET", "balance", "100"]).await;
        let attempt = permit_attempt(&[[7; 16]], None, "a");
        let refused = [
            scripts.set_permits("balance", 5, false).await.err(),
            scripts
                .acquire_permits("balance", "x", secs(60), attempt, true)
                .await
                .err(),
            scripts.inspect_semaphore("balance", 10).await.err(),
            scripts.set_count("balance", 5, None, None).await.err(),
            scripts.count_down("balance", 100, None).await.err(),
            scripts.delete_latch("balance").await.err(),
        ];
        for error in refused {
            assert_eq!(error, Some(CallError::WrongKind), "{host:?}");
        }
        let left = store.command(&["GET", "balance"]).await;
        assert_eq!(left, Value::Bytes("100".into()), "{host:?}");

        // One of ours is known as such for as long as it is there.
        scripts.set_permits("pool", 5, false).await.unwrap();
        let kind = keys::kind("pool").to_bytes();
        let kind = str::from_utf8(&kind).unwrap();
        assert_eq!(
            store.command(&["PTTL", kind]).await,
            Value::Int(-1),
            "{host:?}"
        );
        assert_eq!(
            scripts.inspect_semaphore("pool", 10).await.unwrap().total,
            5
        );

        let ttl = Some(secs(100));
        scripts.set_count("gate", 1, ttl, None).await.unwrap();
        let kind = keys::kind("gate").to_bytes();
        let kind = str::from_utf8(&kind).unwrap();
        let left = store.command(&["PTTL", kind]).await;
        assert!(
            matches!(left, Value::Int(1..=100_000)),
            "{host:?}: {left:?}"
        );
    }
}

tests! {
    #[tokio::test] fn permits_of_redisson_clients_count() = check(FOREIGN);
    #[tokio::test] fn what_is_no_semaphore_stays_as_it_is() = check(KINDS);
}

const FOREIGN: &str = "
taken by Redisson: shown without an owner, and not ours to give back or renew
    SET n 1
    ZADD leases 922337203685477 id:a
    take x 100s b,c => busy, left 1, next never
    take x 100s b => granted b 100s left 0
    holders => 0 of 2 'x'=1/100s ''=1/endless
    give x a => HeldByAnother
    renew x@n:100s:a => HeldByAnother
    give x all => given 1, left 1
    heard => 1
    state => n=1/endless leases{a=never}/endless kind=semaphore/100000s
released by Redisson: lost
    set 2
    heard
    take x 100s a,b
    ZREM leases id:a
    INCRBY n 1
    renew x@n:100s:a,b => Expired
    give x b => given 1, left 2
    heard => 2
Redisson sweeps what we have left
    set 2
    heard
    take x 100s a
    expire a
    ZREM leases id:a
    INCRBY n 1
    take y 100s b => granted b 100s left 1
    give x a => Expired
";

const KINDS: &str = "
a lock
    HSET n x 1
    set 1 => error WrongKind
    take x 100s a => error WrongKind
    give x a => error WrongKind
    undo a => error WrongKind
    holders => error WrongKind
    state => n{x=1}/endless
a latch
    count 3
    heard => 1
    set 1 => error WrongKind
    take x 100s a => error WrongKind
    give x a => error WrongKind
    undo a => error WrongKind
    holders => error WrongKind
    state => n=3/endless kind=latch/100000s
text, and leases or owners that are none
    SET n many
    set 1 => error WrongKind
    take x 100s a => error WrongKind
    SET n 1
    SET leases 1
    take x 100s a => error WrongKind
    DEL leases
    SET owners 1
    take x 100s a => error WrongKind
    set 2 => error WrongKind
    state => n=1/endless owners=1/endless
a record that is none
    set 1
    heard
    SET record:r1 x
    take x 100s a request=r1 => error WrongKind
    give x a request=r1 => error WrongKind
    undo a request=r1 => error WrongKind
    state => n=1/endless kind=semaphore/100000s record:r1=x/endless
what a latch left behind does not count
    count 1
    heard => 1
    DEL n
    set 1 => made 1 of 1
    heard => 1
    state => n=1/endless kind=semaphore/100000s
";
