//! Lines of logs on their way out. A bounded queue and a thread of its own write them, so that
//! nobody who logs waits for the reader of the log. Lines that find the queue full are lost, and
//! counted.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lockkeeper_base::metrics::{Counters, Registrar, label};
use parking_lot::Mutex;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

/// Lines that wait to be written.
const LINES_QUEUED: usize = 8192;

/// How often lost lines are counted and, if there are any, logged.
const INTERVAL: Duration = Duration::from_secs(10);

label! {
    /// A kind of log.
    pub(super) enum Sink = "sink" {
        Log = "log",
        Audit = "audit",
    }
}

/// The lines that were lost. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct LostLines(Arc<Lost>);

#[derive(Debug, Default)]
struct Lost {
    counted: Counters<Sink>,
    queues: Mutex<Vec<(Sink, ErrorCounter)>>,
    /// Lines of the audit log that could not be written.
    failed: Arc<AtomicU64>,
    before: Mutex<[u64; 2]>,
}

// === impl LostLines ===

impl LostLines {
    /// A queue to a writer. Dropping the guard waits for the queued lines, but not long.
    pub(super) fn queue(
        &self,
        sink: Sink,
        writer: impl Write + Send + 'static,
    ) -> (NonBlocking, WorkerGuard) {
        let (queue, guard) = NonBlockingBuilder::default()
            .buffered_lines_limit(LINES_QUEUED)
            .thread_name("log")
            .finish(writer);
        self.0.queues.lock().push((sink, queue.error_counter()));
        (queue, guard)
    }

    /// The count of lines of the audit log that could not be written.
    pub(super) fn failed(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.0.failed)
    }

    /// Registers the metric.
    pub fn register(&self, registrar: &mut Registrar<'_>) {
        registrar.add(
            "log_lines_lost",
            "Lines of the log that were lost because they were not read or written in time",
            self.0.counted.family(),
        );
    }

    /// Counts lost lines and logs their number. Never ends.
    pub(crate) async fn report(self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            for sink in [Sink::Log, Sink::Audit] {
                let lines = self.lost_since(sink);
                if lines > 0 {
                    self.0.counted.of(sink).inc_by(lines);
                    tracing::warn!(sink = ?sink, lines, "lines of the log were lost");
                }
            }
        }
    }

    fn lost_since(&self, sink: Sink) -> u64 {
        let queues = self.0.queues.lock();
        let of_sink = queues.iter().filter(|(of, _)| *of == sink);
        let dropped: usize = of_sink.map(|(_, count)| count.dropped_lines()).sum();
        let mut all = u64::try_from(dropped).unwrap_or(u64::MAX);
        if sink == Sink::Audit {
            all += self.0.failed.load(Ordering::Relaxed);
        }
        let before = &mut self.0.before.lock()[sink as usize];
        let lost = all - *before;
        *before = all;
        lost
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::mpsc};

    use super::*;

    /// Waits until it is allowed to write.
    struct Stuck(mpsc::Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_not_written_in_time_is_lost_and_counted() {
        let lost = LostLines::default();
        let (allow, allowed) = mpsc::channel();
        let (mut queue, guard) = lost.queue(Sink::Log, Stuck(allowed));
        for _ in 0..LINES_QUEUED + 100 {
            queue.write_all(b"line\n").unwrap();
        }
        let lines = lost.lost_since(Sink::Log);
        // One may be with the writer, and not in the queue.
        assert!((99..=100).contains(&lines), "{lines}");
        assert_eq!(lost.lost_since(Sink::Log), 0, "counted once");
        assert_eq!(lost.lost_since(Sink::Audit), 0);
        drop(allow);
        drop(guard);
    }
}
