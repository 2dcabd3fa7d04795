//! What tests read of the log.

use std::{
    io,
    sync::{Arc, mpsc},
};

use serde_json::Value;

/// Sends each entry.
struct Entries(mpsc::Sender<Value>);

impl io::Write for &Entries {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        let _ = self.0.send(serde_json::from_slice(entry)?);
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The entries that this thread writes meanwhile, without their times.
pub(crate) fn entries(write: impl FnOnce()) -> Vec<Value> {
    let (sender, entries) = mpsc::channel();
    let log = tracing_subscriber::fmt().json().without_time();
    let log = log
        .flatten_event(true)
        .with_max_level(tracing::Level::DEBUG);
    let log = log.with_writer(Arc::new(Entries(sender))).finish();
    tracing::subscriber::with_default(log, write);
    entries.try_iter().collect()
}
