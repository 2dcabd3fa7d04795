//! The waits that coordinators share with each other.

use std::time::Duration;

use bytes::Bytes;

use super::{
    encoding::{DONE, NOT_DONE, integer, malformed, millis, unsigned},
    host_scripts::HostScripts,
};
use crate::{
    host::{Call, Value, words},
    script::{CallError, catalog},
};

/// What a coordinator has written of the waits of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedWaits {
    /// At most so long ago it was written.
    pub age: Duration,
    /// What it wrote.
    pub waits: Bytes,
}

// === impl HostScripts ===

impl HostScripts {
    pub(crate) async fn share_waits(
        &self,
        key: &str,
        ttl: Duration,
        waits: Option<&str>,
    ) -> Result<u64, CallError> {
        let script = &catalog::WAITS_SHARE;
        let mut args = words![millis(ttl)];
        args.extend(waits);
        let keys = words![key];
        let reply = self.ask(Call { script, keys, args }).await?;
        let now = integer(&reply).ok_or_else(|| malformed(script, &reply))?;
        Ok(unsigned(now))
    }

    pub(crate) async fn shared_waits(&self, key: &str) -> Result<Option<SharedWaits>, CallError> {
        let script = &catalog::WAITS_LOOK;
        let (keys, args) = (words![key], words![]);
        let reply = self.ask(Call { script, keys, args }).await?;
        match &reply {
            Value::Array(values) => match values.as_slice() {
                [Value::Int(NOT_DONE)] => Ok(None),
                [Value::Int(DONE), Value::Int(age), Value::Bytes(waits)] => {
                    // Written by another server, whose clock is ahead: its age is not known.
                    let age = u64::try_from(*age).ok().map(Duration::from_millis);
                    let waits = waits.clone();
                    Ok(age.map(|age| SharedWaits { age, waits }))
                }
                _ => Err(malformed(script, &reply)),
            },
            _ => Err(malformed(script, &reply)),
        }
    }
}
