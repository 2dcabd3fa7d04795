//! The Redis host without a coordinator: how tests ask it, and what it says.

use bytes::Bytes;
use lockkeeper_store::host::{
    Call, Connected, HostError, Script, ScriptHost, Value, Wake,
    redis::{RedisConfig, connect},
    words,
};
use tokio::sync::mpsc;

use crate::prelude::*;

pub(crate) type Host = Arc<dyn ScriptHost>;

const PATIENCE: Duration = secs(15);

/// A host of the store at this URL, with the defaults but for what is changed.
pub(crate) fn host_with(url: &str, change: impl FnOnce(&mut RedisConfig)) -> Connected {
    let mut config = RedisConfig {
        url: url.to_owned(),
        ..RedisConfig::default()
    };
    change(&mut config);
    connect(&config).expect("a good configuration")
}

/// A call with one key and one argument.
pub(crate) fn call(script: &'static Script, key: &str, argument: &str) -> Call {
    Call {
        script,
        keys: words![key],
        args: words![argument],
    }
}

pub(crate) async fn eval(
    host: &Host,
    script: &'static Script,
    key: &str,
    argument: &str,
) -> Result<Value, HostError> {
    host.eval(call(script, key, argument)).await
}

pub(crate) async fn next_wake(wakes: &mut mpsc::Receiver<Wake>) -> Wake {
    let wake = timeout(PATIENCE, wakes.recv()).await.expect("a wake came");
    wake.expect("the host is there")
}

pub(crate) fn message(channel: &str, payload: &str) -> Wake {
    Wake::Message {
        channel: channel.to_owned(),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
    }
}
