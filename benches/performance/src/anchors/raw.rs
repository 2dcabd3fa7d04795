//! The scripts of an acquire and its release over connections that all callers share, without gRPC
//! and without a coordinator: what Redis and the client library cost.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use async_trait::async_trait;
use futures::future::try_join_all;
use lockkeeper_server::config::Settings;
use lockkeeper_store::{
    host::{Call, HostError, ScriptHost, Value as Returned},
    script::{
        Attempt, Config, Hold, Mode, Refusal, Scripts,
        catalog::{LOCK_ACQUIRE, LOCK_RELEASE},
    },
};
use redis::{Client, Cmd, Value, aio::MultiplexedConnection, cmd};
use tokio::{sync::mpsc, time::Instant};

use crate::{
    args::Load,
    load::{self, Measured, Names},
};

const NAMES: Names = Names {
    scenario: "raw",
    pairs: "pairs",
    latencies: ["try_acquire", "release", "pair"],
};

/// Stands in the arguments of a release for the serial of the grant, and is as long.
const SERIAL: &str = "1000000000000000";

/// As many connections as the coordinator has.
fn connections() -> usize {
    Settings::default().store.connections
}

/// What one caller sends.
#[derive(Clone, Debug)]
struct Calls {
    acquire: Call,
    release: Call,
}

/// Runs nothing and hands on what it was to run, so that keys and arguments are those of the
/// coordinator.
#[derive(Debug)]
struct Recorder {
    calls: mpsc::UnboundedSender<Call>,
}

/// Measures. `as_frames`: what the coordinator sends for frames on a session's stream.
pub(crate) async fn run(store: &str, as_frames: bool, load: &Load) -> anyhow::Result<Measured> {
    let client = Client::open(store)?;
    let opened = (0..connections()).map(|_| client.get_multiplexed_async_connection());
    let opened = try_join_all(opened).await.context("Redis")?;
    for connection in &opened {
        for script in [&LOCK_ACQUIRE, &LOCK_RELEASE] {
            let mut connection = connection.clone();
            let mut command = cmd("SCRIPT");
            let command = command.arg("LOAD").arg(script.source());
            command.query_async::<()>(&mut connection).await?;
        }
    }
    let mut callers = Vec::new();
    for number in 0..load.in_flight {
        callers.push(calls(number, as_frames).await?);
    }
    load::run(NAMES, load, |number| {
        let connection = opened[number % opened.len()].clone();
        let calls = Arc::new(callers[number].clone());
        move || {
            let mut connection = connection.clone();
            let calls = Arc::clone(&calls);
            async move { pair(&mut connection, &calls).await }
        }
    })
    .await
}

async fn pair(
    connection: &mut MultiplexedConnection,
    calls: &Calls,
) -> anyhow::Result<[Instant; 3]> {
    let asked = Instant::now();
    let granted = run_script(connection, &calls.acquire, b"").await?;
    let taken = Instant::now();
    let Value::BulkString(serial) = granted else {
        bail!("no serial in {granted:?}");
    };
    run_script(connection, &calls.release, &serial).await?;
    Ok([asked, taken, Instant::now()])
}

/// Fails unless the script says that it has done what it is for.
async fn run_script(
    connection: &mut MultiplexedConnection,
    call: &Call,
    serial: &[u8],
) -> anyhow::Result<Value> {
    let command = command(call, serial);
    match connection.send_packed_command(&command).await? {
        done @ (Value::Int(1) | Value::BulkString(_)) => Ok(done),
        answer => bail!("{} answered {answer:?}", call.script.name),
    }
}

fn command(call: &Call, serial: &[u8]) -> Cmd {
    let mut command = cmd("EVALSHA");
    command.arg(call.script.sha1()).arg(call.keys.len());
    for key in &call.keys {
        command.arg(key.as_ref());
    }
    for arg in &call.args {
        if arg == SERIAL {
            command.arg(serial);
        } else {
            command.arg(arg.as_ref());
        }
    }
    command
}

/// What the coordinator would send for the n-th caller, who has an owner of its own. Which of an
/// owner's grants is given back is known of those of a session, so for frames only.
async fn calls(number: usize, as_frames: bool) -> anyhow::Result<Calls> {
    let (calls, mut recorded) = mpsc::unbounded_channel();
    let store = Settings::default().store;
    let config = Config {
        idle_token_retention: store.idle_token_retention,
        request_retention: store.request_retention,
        fair_waiter_timeout: store.fair_waiter_timeout,
        writer_hold_back: store.writer_hold_back,
        holders_per_lock_max: 10_000,
        permits_per_name_max: 10_000,
        adopts_counters: true,
        native_commands: false,
    };
    let scripts = Scripts::new(Arc::new(Recorder { calls }), config);
    let lease = Settings::default().session.lease;
    let name = format!("raw-{number}");
    let owner = format!("6fa459ea-ee8a-3ca4-894e-{number:012}:0");
    let hold = Hold::new(&name, Mode::Exclusive, &owner);
    let attempt = Attempt {
        request_id: None,
        attempt: "",
        known_holds: Some(0),
        serial: None,
        fresh_serial: 0,
        note: None,
        least: None,
        delay: None,
    };
    // Both fail, because nothing is run.
    let _ = scripts
        .acquire(hold, lease, attempt, Refusal::Forgotten)
        .await;
    let serial = as_frames.then(|| SERIAL.parse()).transpose()?;
    let _ = scripts.release(hold, serial, lease, None).await;
    let mut next = || recorded.try_recv().context("no script was called");
    Ok(Calls {
        acquire: next()?,
        release: next()?,
    })
}

// === impl Recorder ===

#[async_trait]
impl ScriptHost for Recorder {
    async fn eval(&self, call: Call) -> Result<Returned, HostError> {
        // Nobody listens to more than is wanted.
        let _ = self.calls.send(call);
        Err(HostError::Unavailable("only recorded".to_owned()))
    }

    async fn subscribe(&self, _channel: &str) -> Result<(), HostError> {
        Ok(())
    }

    fn unsubscribe(&self, _channel: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sends_the_two_scripts_of_the_coordinator_for_the_callers_own_lock() {
        let calls = calls(7, false).await.unwrap();
        assert_eq!(calls.acquire.script.name, "lock_acquire");
        assert_eq!(calls.release.script.name, "lock_release");
        assert_eq!(calls.acquire.keys[0], "raw-7");
        assert_eq!(calls.release.keys[0], "raw-7");
    }

    #[tokio::test]
    async fn a_frame_gives_back_the_grant_that_was_granted() {
        for (as_frames, named) in [(false, false), (true, true)] {
            let calls = calls(0, as_frames).await.unwrap();
            let packed = command(&calls.release, b"42").get_packed_command();
            let serial = b"\r\n$2\r\n42\r\n";
            let is_there = packed.windows(serial.len()).any(|it| it == serial);
            assert_eq!(is_there, named);
        }
    }
}
