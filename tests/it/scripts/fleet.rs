//! Coordinators that announce themselves: for how long, and how many.

use lockkeeper_store::script::Scripts;

use super::story::config;
use crate::support::hosts::TWINS;
use crate::support::prelude::*;

const KEY: &str = "lockkeeper_coordinators:{app:fleet}";

#[tokio::test]
async fn coordinators_know_each_other_until_they_leave_or_say_nothing_any_more() {
    for host in TWINS {
        let store = host.start().await;
        let (client, _wakes) = store.connect();
        let scripts = Scripts::new(client, config());
        let others = async |id: &str, said: Option<&str>| {
            let answer = scripts.announce("app:", id, secs(15), said).await.unwrap();
            assert!(answer.is_announced, "{host:?}");
            let pairs = answer.others.iter();
            let pairs = pairs.map(|(id, said)| [id.as_ref(), b"=", said.as_ref()].concat());
            let mut pairs: Vec<_> = pairs.map(|it| String::from_utf8(it).unwrap()).collect();
            pairs.sort();
            pairs.join(" ")
        };
        assert_eq!(others("a", Some("{\"x\":\n1}")).await, "", "{host:?}");
        assert_eq!(others("b", Some("2")).await, "a={\"x\":\n1}", "{host:?}");
        assert_eq!(others("a", Some("3")).await, "b=2", "{host:?}");
        assert_eq!(others("b", None).await, "a=3", "{host:?}");
        assert_eq!(others("a", Some("3")).await, "", "{host:?}: it has left");
        let left = expect!(store.command(&["PTTL", KEY]).await, Value::Int);
        assert!((1..=15_000).contains(&left), "{host:?}: {left}");
        // Written long ago, by a server whose clock was ahead, or by another program.
        for odd in ["1 x", "99999999999999 x", "x"] {
            store.command(&["HSET", KEY, "odd", odd]).await;
            assert_eq!(others("a", Some("3")).await, "", "{host:?}: {odd}");
            assert_eq!(store.command(&["HLEN", KEY]).await, Value::Int(1));
        }
        let huge = format!("{} {}", store.now_micros().await / 1000, "x".repeat(1001));
        store.command(&["HSET", KEY, "huge", &huge]).await;
        assert_eq!(others("a", Some("3")).await, "", "{host:?}");
    }
}

#[tokio::test]
async fn more_coordinators_than_there_may_be_are_not_announced() {
    for host in TWINS {
        let store = host.start().await;
        let (client, _wakes) = store.connect();
        let scripts = Scripts::new(client, config());
        let announce = async |id: u32| {
            let id = id.to_string();
            scripts
                .announce("app:", &id, secs(15), Some("x"))
                .await
                .unwrap()
        };
        for id in 0..64 {
            assert!(announce(id).await.is_announced, "{host:?}");
        }
        let refused = announce(64).await;
        assert!(!refused.is_announced, "{host:?}");
        assert_eq!(refused.others.len(), 64, "{host:?}");
        assert!(
            announce(7).await.is_announced,
            "{host:?}: it is one of them"
        );
    }
}
