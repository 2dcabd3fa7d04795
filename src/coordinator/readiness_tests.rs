//! Tests of a store whose keys are spread over two servers.

use async_trait::async_trait;
use lockkeeper_store::host::{
    Call, HostError, ScriptHost, Value,
    embedded::{Clock, EmbeddedStore},
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;
use crate::testing::{SECOND, config};

/// The servers `a` and `b`, of which some refuse what is written.
#[derive(Debug)]
struct Two {
    inner: Arc<dyn ScriptHost>,
    refusing: Arc<Mutex<Vec<&'static str>>>,
}

#[async_trait]
impl ScriptHost for Two {
    async fn eval(&self, call: Call) -> Result<Value, HostError> {
        let at = |server: &str| {
            let tag = format!("{{{server}}}");
            let has_tag = |key: &[u8]| key.windows(tag.len()).any(|it| it == tag.as_bytes());
            call.keys.iter().any(has_tag)
        };
        let refusing = self.refusing.lock().clone();
        if let Some(server) = refusing.into_iter().find(|server| at(server)) {
            // A dead server is noticed late.
            tokio::time::sleep(SECOND).await;
            return Err(HostError::Unavailable(format!("{server} is dead")));
        }
        self.inner.eval(call).await
    }

    async fn subscribe(&self, channel: &str) -> Result<(), HostError> {
        self.inner.subscribe(channel).await
    }

    fn unsubscribe(&self, channel: &str) {
        self.inner.unsubscribe(channel);
    }

    fn servers(&self) -> Vec<Server> {
        let server = |name: &str| Server {
            name: name.to_owned(),
            tag: name.to_owned(),
        };
        ["a", "b"].map(server).into()
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_ready_while_one_of_several_servers_takes_writes() {
    let (inner, wakes) = EmbeddedStore::new(Clock::system()).connect();
    let refusing: Arc<Mutex<Vec<_>>> = Arc::default();
    let host = Arc::new(Two {
        inner,
        refusing: Arc::clone(&refusing),
    });
    let coordinator = Coordinator::start(config(), (host, wakes));
    let noted = || coordinator.core.refusing.names();
    assert_eq!(coordinator.ready().await, Ok(()));
    for dead in ["a", "b"] {
        *refusing.lock() = vec![dead];
        let begun = Instant::now();
        assert_eq!(coordinator.ready().await, Ok(()), "without {dead}");
        assert!(begun.elapsed() < SECOND, "it does not wait for {dead}");
        tokio::time::sleep(SECOND * 2).await;
        assert_eq!(noted(), [dead]);
    }
    *refusing.lock() = vec!["a", "b"];
    let why = coordinator.ready().await.unwrap_err();
    assert!(why.contains("is dead"), "{why}");
    refusing.lock().clear();
    assert_eq!(coordinator.ready().await, Ok(()));
    tokio::time::sleep(SECOND).await;
    assert!(noted().is_empty());
}
