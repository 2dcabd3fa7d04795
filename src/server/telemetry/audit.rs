//! The audit log in a file of its own: JSON lines with consecutive numbers, so that a missing one
//! shows. The numbers begin at 1 with each process.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

/// The target of audit entries.
pub(super) const TARGET: &str = "audit";

/// Others must not read who does what.
const MODE: u32 = 0o640;

/// How often the file is looked for under its name, which may have been moved away.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A format with the number of each entry in front.
#[derive(Debug)]
pub(super) struct Numbered<F> {
    format: F,
    last: AtomicU64,
}

/// The file. Another one is opened when it has been moved away.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    file: File,
    looked_at: Instant,
    failed: Arc<AtomicU64>,
}

// === impl Numbered ===

impl<F> Numbered<F> {
    pub(super) fn new(format: F) -> Self {
        let last = AtomicU64::new(0);
        Self { format, last }
    }
}

impl<S, N, F> FormatEvent<S, N> for Numbered<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.format
            .format_event(context, Writer::new(&mut line), event)?;
        let rest = line.strip_prefix('{').unwrap_or(&line);
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        write!(writer, "{{\"seq\":{number},{rest}")
    }
}

// === impl AuditFile ===

impl AuditFile {
    /// Appends to the file, which is created if it does not exist. Lines that cannot be written are
    /// counted in `failed`.
    pub(super) fn open(path: PathBuf, failed: Arc<AtomicU64>) -> io::Result<Self> {
        let file = append(&path)?;
        Ok(Self {
            path,
            file,
            looked_at: Instant::now(),
            failed,
        })
    }

    fn follow(&mut self) {
        if self.looked_at.elapsed() < LOOK_INTERVAL {
            return;
        }
        self.looked_at = Instant::now();
        let id = |file: &std::fs::Metadata| (file.dev(), file.ino());
        let named = std::fs::metadata(&self.path).ok();
        let is_same = named.as_ref().map(id) == self.file.metadata().ok().as_ref().map(id);
        if !is_same && let Ok(file) = append(&self.path) {
            self.file = file;
        }
    }
}

fn append(path: &PathBuf) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(MODE).open(path)
}

/// Takes whole lines.
impl Write for AuditFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.follow();
        if self.file.write_all(line).is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
