//! The host behind sentinels: it leaves a master that was replaced, though that still answers, and
//! copes with sentinels that fall silent.

use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper_store::host::{Connected, HostError, Script, Value, Wake};

use crate::prelude::*;
use crate::{
    fake_redis::FakeRedis,
    hosts::{Host, eval, host_with},
    sentinel::sentinel_says,
    steps::asked_three_times,
};

/// Two masters that both live: sentinels name the first until the second is elected.
struct Masters {
    servers: [RedisServer; 2],
    is_second_elected: Arc<AtomicBool>,
}

// === impl Masters ===

impl Masters {
    async fn start() -> Self {
        Self {
            servers: [RedisServer::start().await, RedisServer::start().await],
            is_second_elected: Arc::default(),
        }
    }

    async fn sentinel(&self) -> FakeRedis {
        let is_second_elected = Arc::clone(&self.is_second_elected);
        let ports = self.servers.each_ref().map(RedisServer::port);
        FakeRedis::start(move |words| {
            let second = is_second_elected.load(Ordering::SeqCst);
            let port = ports[usize::from(second)];
            sentinel_says(words, second.into(), port, port)
        })
        .await
    }

    /// Resolves when a call has run there.
    async fn until_called(&self, host: &Host, server: usize) {
        eventually("calls go to the master that is named", || async {
            let called = call(host).await;
            called.is_ok() && self.servers[server].text(&["EXISTS", "called"]).await == "1"
        })
        .await;
    }

    /// Calls go to the second master, though the first one answers.
    async fn expect_followed(&self, host: &Host) {
        self.until_called(host, 0).await;
        self.is_second_elected.store(true, Ordering::SeqCst);
        self.until_called(host, 1).await;
    }
}

async fn call(host: &Host) -> Result<Value, HostError> {
    static SET: Script = Script::new("set", "return redis.call('set', KEYS[1], '')");
    eval(host, &SET, "called", "").await
}

fn url_by(sentinels: &[u16]) -> String {
    let addresses = sentinels.iter().map(|port| format!("127.0.0.1:{port}"));
    Sentinels::url_at("redis", addresses)
}

fn host_by(sentinels: &[u16]) -> Connected {
    host_with(&url_by(sentinels), |_| {})
}

#[tokio::test]
async fn calls_and_subscriptions_leave_a_replaced_master_that_still_answers() {
    let masters = Masters::start().await;
    let sentinel = masters.sentinel().await;
    let (host, mut wakes) = host_by(&[sentinel.port()]);
    host.subscribe("channel").await.expect("subscribed");
    masters.expect_followed(&host).await;
    eventually("the new master's messages are heard", || async {
        masters.servers[1].text(&["PUBLISH", "channel", ""]).await == "1"
    })
    .await;
    let left = masters.servers[0].text(&["PUBLISH", "channel", ""]).await;
    assert_eq!(left, "0");
    // What was published before is missed.
    while wakes.recv().await.expect("the host is there") != Wake::Gap {}
}

#[tokio::test]
async fn a_sentinel_that_says_nothing_is_reported_and_the_other_one_believed() {
    let mut masters = Masters::start().await;
    let sentinel = masters.sentinel().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ports = [silent.local_addr().unwrap().port(), sentinel.port()];
    let (host, _wakes) = host_by(&ports);
    masters.expect_followed(&host).await;
    masters.servers[1].kill();
    eventually("the silent sentinel is reported", || async {
        let called = call(&host).await;
        let trouble = "of 2 sentinels 1 failed (no answer in time)";
        matches!(called, Err(HostError::Unavailable(why)) if why.ends_with(trouble))
    })
    .await;
}

#[tokio::test]
async fn a_sentinel_that_goes_on_saying_nothing_is_logged_once() {
    let masters = Masters::start().await;
    let sentinels = [masters.sentinel().await, masters.sentinel().await];
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ports = sentinels.each_ref().map(FakeRedis::port);
    let url = url_by(&[ports[0], ports[1], silent.local_addr().unwrap().port()]);
    let coordinator = Coordinator::start(&Settings::on(&url)).await;
    asked_three_times(&silent).await;
    let log = coordinator.log();
    assert_eq!(log.matches("not all sentinels").count(), 1, "{log}");
    assert!(!log.contains("all sentinels answer"), "{log}");
}

#[tokio::test]
async fn a_sentinel_is_asked_over_a_new_connection_when_the_old_one_fell_silent() {
    let masters = Masters::start().await;
    let sentinel = masters.sentinel().await;
    let proxy = TcpProxy::to(sentinel.port()).await;
    let (host, _wakes) = host_by(&[proxy.address().port()]);
    masters.until_called(&host, 0).await;
    proxy.silence();
    masters.expect_followed(&host).await;
}
