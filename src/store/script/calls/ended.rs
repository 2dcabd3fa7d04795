//! Sessions that have ended, which are remembered so that no resume token brings them back.

use std::time::Duration;

use super::{
    encoding::{DONE, NOT_DONE, millis, numbers, refusal},
    host_scripts::HostScripts,
};
use crate::{
    host::{Call, words},
    script::{CallError, catalog, keys},
};

/// Ended sessions of one identity that are remembered, in about 1 MB.
const REMEMBERED_MAX: u32 = 10_000;

// === impl HostScripts ===

impl HostScripts {
    pub(crate) async fn end_session(
        &self,
        whose: &str,
        digest: &str,
        retention: Duration,
    ) -> Result<(), CallError> {
        let script = &catalog::SESSION_END;
        let args = words![digest, millis(retention), REMEMBERED_MAX];
        let keys = words![keys::ended_sessions(whose)];
        let reply = self.ask(Call { script, keys, args }).await?;
        match *numbers(script, &reply)? {
            [DONE] => Ok(()),
            ref other => Err(refusal(script, other)),
        }
    }

    pub(crate) async fn has_session_ended(
        &self,
        whose: &str,
        digest: &str,
    ) -> Result<bool, CallError> {
        let script = &catalog::SESSION_ENDED;
        let (keys, args) = (words![keys::ended_sessions(whose)], words![digest]);
        let reply = self.ask(Call { script, keys, args }).await?;
        match *numbers(script, &reply)? {
            [DONE] => Ok(true),
            [NOT_DONE] => Ok(false),
            ref other => Err(refusal(script, other)),
        }
    }
}
