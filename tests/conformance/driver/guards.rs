//! What the driver holds.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_client::{Error, Guard, Leadership, Permits};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::wire::{Command, print, short};

/// Locks, a leadership or permits.
#[derive(Debug)]
pub(crate) enum Held {
    Locks(Guard),
    Leads(Leadership),
    Permits(Permits),
}

// === impl Held ===

impl Held {
    fn locks(&self) -> Result<&Guard, &Permits> {
        match self {
            Self::Locks(guard) => Ok(guard),
            Self::Leads(leadership) => Ok(leadership.guard()),
            Self::Permits(permits) => Err(permits),
        }
    }

    pub(crate) fn describe(&self) -> Value {
        match self.locks() {
            Ok(guard) => {
                let tokens = guard.grants().iter();
                let tokens: BTreeMap<_, _> = tokens
                    .map(|it| (it.name.clone(), it.fencing_token.to_string()))
                    .collect();
                json!({
                    "fencing_token": guard.fencing_token().to_string(),
                    "fencing_tokens": tokens,
                    "valid_ms": millis(guard.valid_for()),
                    "lost": guard.loss().is_some(),
                })
            }
            Err(permits) => json!({
                "permit_ids": permits.grant().permit_ids,
                "valid_ms": millis(permits.valid_for()),
                "lost": permits.loss().is_some(),
            }),
        }
    }

    pub(crate) async fn renew(&self, lease: Option<Duration>) -> Result<(), Error> {
        match self.locks() {
            Ok(guard) => guard.renew(lease).await,
            Err(permits) => permits.renew(lease).await,
        }
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        match self {
            Self::Locks(guard) => guard.release().await,
            Self::Leads(leadership) => leadership.resign().await,
            Self::Permits(permits) => permits.release().await,
        }
    }

    fn lost(&self) -> CancellationToken {
        match self.locks() {
            Ok(guard) => guard.lost().clone(),
            Err(permits) => permits.lost().clone(),
        }
    }

    fn loss(&self) -> Option<(Error, u64)> {
        match self.locks() {
            Ok(guard) => Some((guard.loss()?, guard.fencing_token())),
            Err(permits) => Some((permits.loss()?, 0)),
        }
    }
}

/// Runs a command and prints an event when it is lost, unless it was released before.
pub(crate) fn watch(held: &Arc<Held>, acquire: Command, commands: UnboundedSender<Command>) {
    let (lost, held) = (held.lost(), Arc::downgrade(held));
    spawn_detached("loss", async move {
        lost.cancelled().await;
        // The guard is free again before the event, which may be answered by its release.
        let why = held.upgrade().and_then(|held| held.loss());
        if let Some((Error::Lost { reason, detail, .. }, token)) = why {
            if let Some(handler) = acquire.on_lost {
                let _ = commands.send(*handler);
            }
            print(&json!({
                "event": "lost",
                "guard": acquire.guard,
                "reason": short(reason.as_str_name()),
                "fencing_token": token.to_string(),
                "detail": detail,
            }));
        }
    });
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
