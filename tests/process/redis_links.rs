//! Calls over a connection to a real server that is lost.

use std::time::Duration;

use lockkeeper_store::host::{
    Call, HostError, Script,
    redis::{RedisConfig, connect},
    words,
};

use crate::redis_server::RedisServer;

static NOTHING: Script = Script::new("nothing", "return 0");

#[tokio::test]
async fn calls_wait_while_a_lost_connection_is_replaced() {
    let server = RedisServer::start().await;
    let (host, _wakes) = connect(&RedisConfig {
        url: server.url(),
        // No call runs into it, however busy the machine is.
        call_timeout: Duration::from_secs(15),
        ..RedisConfig::default()
    })
    .expect("a good configuration");
    let call = || Call {
        script: &NOTHING,
        keys: words!["key"],
        args: words![],
    };
    // A third loss would be more than an accident, and the pause before the next attempt longer.
    for _ in 0..2 {
        host.eval(call()).await.expect("connected");
        let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        server.command(&kill).await;
        // What was sent over it may have run; what comes later waits for the next.
        while let Err(error) = host.eval(call()).await {
            let is_of_the_lost_one = match &error {
                HostError::OutcomeUnknown(_) => true,
                HostError::Unavailable(why) => why == "the connection was lost",
                HostError::Rejected { .. } | HostError::OutOfMemory => false,
            };
            assert!(is_of_the_lost_one, "{error}");
            tokio::task::yield_now().await;
        }
    }
}
