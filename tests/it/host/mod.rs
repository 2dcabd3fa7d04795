//! What the layers above rely on in a host, checked on every host.

mod evaluation;
mod messages;
mod replies;

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_store::host::{Call, HostError, Script, ScriptHost, Value};

fn script(source: &'static str) -> &'static Script {
    Box::leak(Box::new(Script::new("test", source)))
}

fn call(script: &'static Script) -> Call {
    let keys = ["key", "{key}-2"].map(Bytes::from).to_vec();
    let args: [&[u8]; 3] = [b"a", b"\xff\x00\r\n", b""];
    let args = args.map(Bytes::from).to_vec();
    Call { script, keys, args }
}

async fn eval(client: &Arc<dyn ScriptHost>, source: &'static str) -> Result<Value, HostError> {
    client.eval(call(script(source))).await
}
