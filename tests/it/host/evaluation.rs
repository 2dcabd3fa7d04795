//! How scripts run beside each other, and what stops them.

use std::collections::BTreeSet;

use lockkeeper_store::host::Script;

use super::{call, eval};
use crate::support::hosts::HOSTS;
use crate::support::prelude::*;

#[tokio::test]
async fn scripts_are_atomic_across_clients() {
    const CALLS: i64 = 300;
    static NEXT: Script = Script::new(
        "next",
        "local last = tonumber(redis.call('get', KEYS[1]) or 0)
        redis.call('set', KEYS[1], last + 1)
        return last",
    );
    for host in HOSTS {
        let store = host.start().await;
        let clients = [store.connect().0, store.connect().0];
        let calls = (0..CALLS).map(|n| clients[usize::from(n % 2 == 0)].eval(call(&NEXT)));
        let replies = join_all(calls).await.into_iter();
        let seen = replies.map(|reply| expect!(reply.unwrap(), Value::Int));
        assert_eq!(
            seen.collect::<BTreeSet<_>>(),
            (0..CALLS).collect(),
            "{host:?}"
        );
    }
}

#[tokio::test]
async fn what_was_written_before_an_error_stays() {
    for host in HOSTS {
        let store = host.start().await;
        let (client, _wakes) = store.connect();
        let failed = eval(&client, "redis.call('set', KEYS[1], 'new') error('why')").await;
        assert!(matches!(failed, Err(HostError::Rejected { .. })));
        let held = store.command(&["GET", "key"]).await;
        assert_eq!(held, Value::Bytes("new".into()), "{host:?}");
    }
}

#[tokio::test]
async fn out_of_memory_is_told_apart_and_refuses_only_what_needs_memory() {
    for host in HOSTS {
        let store = host.start().await;
        let (client, _wakes) = store.connect();
        store.set_out_of_memory(true).await;
        let grows = eval(&client, "return redis.call('set', KEYS[1], '1')").await;
        assert_eq!(grows, Err(HostError::OutOfMemory), "{host:?}");
        let reads = eval(&client, "return redis.call('exists', KEYS[1])").await;
        assert_eq!(reads, Ok(Value::Int(0)), "{host:?}");
        let frees = "redis.call('del', KEYS[1]) return redis.call('set', KEYS[1], '1')";
        let grows_later = eval(&client, frees).await;
        assert_eq!(grows_later, Ok(Value::Bytes("OK".into())), "{host:?}");
    }
}

#[tokio::test]
async fn scripts_that_the_store_has_forgotten_run_all_the_same() {
    static APPEND: Script = Script::new("append", "return redis.call('rpush', KEYS[1], ARGV[1])");
    for host in HOSTS {
        let store = host.start().await;
        let (client, _wakes) = store.connect();
        for round in 1..=3 {
            assert_eq!(client.eval(call(&APPEND)).await, Ok(Value::Int(round)));
            store.forget_scripts().await;
        }
        let calls = join_all((0..50).map(|_| client.eval(call(&APPEND)))).await;
        assert!(calls.iter().all(Result::is_ok), "{host:?}");
        let length = store.command(&["LLEN", "key"]).await;
        assert_eq!(length, Value::Int(53), "each ran once");
    }
}
