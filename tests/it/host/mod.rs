//! What the layers above rely on in a host, checked on every host.

mod evaluation;
mod messages;
mod replies;

use lockkeeper_store::host::{Call, Script, ScriptHost, words};

use crate::support::prelude::*;

fn script(source: &'static str) -> &'static Script {
    Box::leak(Box::new(Script::new("test", source)))
}

fn call(script: &'static Script) -> Call {
    Call {
        script,
        keys: words!["key", "{key}-2"],
        args: words!["a", &b"\xff\x00\r\n"[..], ""],
    }
}

async fn eval(client: &Arc<dyn ScriptHost>, source: &'static str) -> Result<Value, HostError> {
    client.eval(call(script(source))).await
}
