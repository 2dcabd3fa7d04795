//! The coordinators of the store, which announce themselves to each other.

use std::time::Duration;

use bytes::Bytes;

use super::{
    encoding::{DONE, NOT_DONE, malformed, millis},
    host_scripts::HostScripts,
};
use crate::{
    host::{Call, Value, words},
    script::{CallError, catalog},
};

/// Coordinators that may be announced at the same time.
const COORDINATORS_MAX: u32 = 64;

/// What a coordinator learns when it announces itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherCoordinators {
    /// Whether it is announced. Otherwise there are too many.
    pub is_announced: bool,
    /// The ids of the others, and what they say of themselves.
    pub others: Vec<(Bytes, Bytes)>,
}

// === impl HostScripts ===

impl HostScripts {
    pub(crate) async fn announce(
        &self,
        key: &str,
        id: &str,
        ttl: Duration,
        said: Option<&str>,
    ) -> Result<OtherCoordinators, CallError> {
        let script = &catalog::FLEET_ANNOUNCE;
        let mut args = words![id, millis(ttl), COORDINATORS_MAX];
        args.extend(said);
        let keys = words![key];
        let reply = self.ask(Call { script, keys, args }).await?;
        read(&reply).ok_or_else(|| malformed(script, &reply))
    }
}

fn read(reply: &Value) -> Option<OtherCoordinators> {
    let Value::Array(values) = reply else {
        return None;
    };
    let (first, others) = values.split_first()?;
    let others = others.chunks(2).map(|pair| match pair {
        [Value::Bytes(id), Value::Bytes(said)] => Some((id.clone(), said.clone())),
        _ => None,
    });
    Some(OtherCoordinators {
        is_announced: match first {
            Value::Int(DONE) => true,
            Value::Int(NOT_DONE) => false,
            _ => return None,
        },
        others: others.collect::<Option<_>>()?,
    })
}
