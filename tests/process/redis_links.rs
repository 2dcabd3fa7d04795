//! Calls over a connection to a real server that is lost.

use lockkeeper_store::host::{HostError, Script};

use crate::hosts::{eval, host_with};
use crate::prelude::*;

static NOTHING: Script = Script::new("nothing", "return 0");

#[tokio::test]
async fn calls_wait_while_a_lost_connection_is_replaced() {
    let server = RedisServer::start().await;
    // No call runs into it, however busy the machine is.
    let (host, _wakes) = host_with(&server.url(), |it| it.call_timeout = secs(15));
    let call = || eval(&host, &NOTHING, "key", "");
    // A third loss would be more than an accident, and the pause before the next attempt longer.
    for _ in 0..2 {
        call().await.expect("connected");
        let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        server.command(&kill).await;
        // What was sent over it may have run; what comes later waits for the next.
        while let Err(error) = call().await {
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
