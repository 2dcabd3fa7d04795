//! Whether the store takes work: it answers and takes writes.

use std::sync::Arc;

use lockkeeper_store::{host::Server, script::CallError};
use tokio::sync::mpsc;

use crate::{coordinator::Coordinator, core::Core};

// === impl Coordinator ===

impl Coordinator {
    /// Checks that the store answers and takes writes: it has memory left, and it may write to its
    /// disk. If its keys are spread over several servers, one of them has to: what the others have
    /// is out of reach through every coordinator. An error says why not.
    pub async fn ready(&self) -> Result<(), String> {
        self.probe().await.map_err(|error| why_not(&error))?;
        let core = &self.core;
        let prefix = &core.config.limits.key_prefix;
        // With a hash tag in the prefix, one server has all our keys.
        let servers = if prefix.contains('{') {
            Vec::new()
        } else {
            core.scripts.servers()
        };
        if servers.is_empty() {
            let written = core.scripts.takes_writes(prefix).await;
            return written.map_err(|error| why_not(&error));
        }
        core.refusing.keep_only(&servers);
        // The answer does not wait for a server that is away; what it says is still noted.
        let (answers, mut heard) = mpsc::channel(servers.len());
        for server in servers {
            let (core, answers) = (Arc::clone(core), answers.clone());
            let ask = async move { answers.send(core.asked_to_write(&server).await).await };
            self.core.tasks.spawn("ready", ask);
        }
        drop(answers);
        let mut why = String::new();
        while let Some(answer) = heard.recv().await {
            match answer {
                Ok(()) => return Ok(()),
                Err(error) => why = error,
            }
        }
        Err(why)
    }
}

// === impl Core ===

impl Core {
    async fn asked_to_write(&self, server: &Server) -> Result<(), String> {
        let prefix = &self.config.limits.key_prefix;
        let written = self
            .scripts
            .takes_writes(&format!("{prefix}{{{}}}", server.tag))
            .await
            .map_err(|error| why_not(&error));
        self.refusing.heard(&server.name, &written);
        written
    }
}

/// An error for people who look whether the store takes work.
fn why_not(error: &CallError) -> String {
    match error {
        CallError::Unavailable(why) if why.starts_with("MISCONF") => {
            "the store refuses writes: it cannot write to its disk (MISCONF)".to_owned()
        }
        CallError::Refused(why) => format!("the store refuses writes: {why}"),
        error => error.to_string(),
    }
}

#[cfg(test)]
#[path = "readiness_tests.rs"]
mod tests;
