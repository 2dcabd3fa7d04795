//! Waits that coordinators share: for how long, and what is read of them.

use lockkeeper_store::script::Scripts;

use super::story::config;
use crate::support::hosts::TWINS;
use crate::support::prelude::*;

#[tokio::test]
async fn waits_are_shared_for_a_while_and_taken_back() {
    for host in TWINS {
        let store = host.start().await;
        let (client, _wakes) = store.connect();
        let scripts = Scripts::new(client, config());
        let of = ("app:", "0123456789abcdef");
        assert_eq!(scripts.shared_waits(of).await, Ok(None), "{host:?}");
        let text = "{\"a\":\n1}";
        let now = scripts.share_waits(of, secs(3), Some(text)).await.unwrap();
        let micros = u64::try_from(store.now_micros().await).unwrap();
        assert!((now..now + 1000).contains(&(micros / 1000)), "{host:?}");
        let shared = scripts.shared_waits(of).await.unwrap().unwrap();
        assert_eq!(shared.waits, text);
        assert!(shared.age < secs(1), "{host:?}: {shared:?}");
        let key = keys::waits(of.0, of.1);
        assert_eq!(key, "lockkeeper_waits:{app:0123456789abcdef}");
        let left = expect!(store.command(&["PTTL", &key]).await, Value::Int);
        assert!((1..=3000).contains(&left), "{host:?}: {left}");
        // Written by a server whose clock is ahead, or by another program.
        for odd in ["99999999999999 {}", "x"] {
            store.command(&["SET", &key, odd]).await;
            assert_eq!(scripts.shared_waits(of).await, Ok(None), "{host:?}");
        }
        scripts.share_waits(of, secs(3), None).await.unwrap();
        assert_eq!(store.command(&["EXISTS", &key]).await, Value::Int(0));
    }
}
