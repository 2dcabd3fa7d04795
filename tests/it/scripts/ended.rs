//! Sessions that have ended: how long they are remembered, and how many.

use lockkeeper_store::script::Scripts;

use super::story::config;
use crate::support::hosts::TWINS;
use crate::support::prelude::*;

#[tokio::test]
async fn the_last_ends_of_each_identity_are_remembered() {
    for host in TWINS {
        let store = host.start().await;
        let (client, _wakes) = store.connect();
        let scripts = Scripts::new(client, config());
        let has_ended = async |whose, digest: &str| {
            let ended = scripts.has_session_ended(whose, digest).await;
            ended.unwrap()
        };
        assert!(!has_ended("x", "1").await);
        for _ in 0..2 {
            scripts.end_session("x", "1", secs(600)).await.unwrap();
        }
        assert!(has_ended("x", "1").await);
        assert!(!has_ended("y", "1").await, "{host:?}");
        let key = keys::ended_sessions("x").to_bytes();
        let key = std::str::from_utf8(&key).unwrap();
        let left = expect!(store.command(&["PTTL", key]).await, Value::Int);
        assert!((590_000..=600_000).contains(&left), "{host:?}: {left}");
        // One whose time is over, as if it stood there.
        store.command(&["ZADD", key, "1", "2"]).await;
        assert!(!has_ended("x", "2").await, "{host:?}");
        for number in 3..10_001 {
            let (at, digest) = (number.to_string(), format!("other{number}"));
            store.command(&["ZADD", key, &at, &digest]).await;
        }
        let count = Value::Int(10_000);
        assert_eq!(store.command(&["ZCARD", key]).await, count);
        scripts.end_session("x", "new", secs(600)).await.unwrap();
        assert_eq!(store.command(&["ZCARD", key]).await, count, "{host:?}");
        assert!(has_ended("x", "new").await && has_ended("x", "1").await);
    }
}
