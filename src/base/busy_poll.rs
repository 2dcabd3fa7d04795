//! Adaptive busy polling: the thread polls for events a little longer before it sleeps. Waking a
//! sleeping thread takes longer than most waits here: the store's answers and the next requests
//! arrive within a fraction of a millisecond. The cost is highest on a virtual machine, which loses
//! idle processors.
//!
//! Polling in vain costs CPU time, so the thread polls only if that paid off recently. The two
//! expected events are counted separately. It never polls while another thread wants the processor.
//! The idea and the usual limit are those of halt polling in Linux.

use std::{cell::Cell, sync::Arc, thread, time::Duration};

use parking_lot::Mutex;
use tokio::{runtime::Builder, sync::Notify, time::Instant};

use crate::tasks::spawn_detached;

/// The event that is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// An answer of the store.
    Answer,
    /// A request of a caller.
    Operation,
}

/// The polling state of one thread.
#[derive(Debug)]
struct Waits {
    limit: Duration,
    /// The last expectation, to notice a new one.
    expected: Expected,
    /// When the thread became idle; none without an expectation, or if the processor is wanted.
    since: Option<Instant>,
    woken_at: Instant,
    /// How often lately the event came within the limit, for each [`Next`].
    credit: [u8; 2],
}

/// The number of expectations so far, and the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expected(u64, Next);

/// A longer yield means that another thread ran. Then the processor is wanted, and sleeping is
/// better than alternating.
const GAVE_WAY: Duration = Duration::from_micros(10);

/// Polling needs this much credit; credit is capped, so that it adapts.
const CREDIT_NEEDED: u8 = 2;
const CREDIT_MAX: u8 = 3;

thread_local! {
    /// Shared by the thread's tasks and hooks, so it needs no synchronisation.
    static EXPECTED: Cell<Expected> = const { Cell::new(Expected(0, Next::Operation)) };
}

/// Sets the event that the thread waits for when it becomes idle.
pub fn expect(next: Next) {
    EXPECTED.with(|it| it.set(Expected(it.get().0.wrapping_add(1), next)));
}

/// Makes the only thread of a runtime poll for up to `limit` before it sleeps; zero turns this off.
pub fn install(builder: &mut Builder, limit: Duration) {
    if limit.is_zero() {
        return;
    }
    let waits = Arc::new(Mutex::new(None::<Waits>));
    let again = Arc::new(Notify::new());
    let after = Arc::clone(&waits);
    builder.on_thread_park(move || {
        let now = Instant::now();
        let mut waits = waits.lock();
        let waits = waits.get_or_insert_with(|| {
            let again = Arc::clone(&again);
            // A runnable task keeps the thread from sleeping; it then only polls for events.
            spawn_detached("busy-poll", async move {
                loop {
                    again.notified().await;
                }
            });
            Waits::new(limit, now)
        });
        if waits.keeps_polling(now, EXPECTED.get()) {
            thread::yield_now();
            if now.elapsed() < GAVE_WAY {
                again.notify_one();
            } else {
                waits.since = None;
            }
        }
    });
    builder.on_thread_unpark(move || {
        if let Some(waits) = after.lock().as_mut() {
            waits.woken_at = Instant::now();
        }
    });
}

// === impl Waits ===

impl Waits {
    fn new(limit: Duration, now: Instant) -> Self {
        Self {
            limit,
            expected: Expected(0, Next::Operation),
            since: None,
            woken_at: now,
            credit: [0; 2],
        }
    }

    /// The thread is idle. Whether to poll once more instead of sleeping.
    fn keeps_polling(&mut self, now: Instant, expected: Expected) -> bool {
        if expected != self.expected {
            self.learn();
            self.expected = expected;
            self.since = Some(now);
        }
        let waits = |since| now.saturating_duration_since(since) < self.limit;
        self.since.is_some_and(waits) && self.credit[expected.1 as usize] >= CREDIT_NEEDED
    }

    /// The expected event came when the thread was last woken.
    fn learn(&mut self) {
        let Some(since) = self.since else {
            return;
        };
        let credit = &mut self.credit[self.expected.1 as usize];
        *credit = if self.woken_at.saturating_duration_since(since) < self.limit {
            CREDIT_MAX.min(*credit + 1)
        } else {
            credit.saturating_sub(1)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(200);

    /// A waiting thread with its own clock.
    struct Thread {
        waits: Waits,
        now: Instant,
        count: u64,
    }

    impl Thread {
        fn new() -> Self {
            let now = Instant::now();
            let waits = Waits::new(LIMIT, now);
            let count = 0;
            Self { waits, now, count }
        }

        /// Waits for an event that comes after `micros`; returns how long the thread polled.
        fn wait(&mut self, next: Next, micros: u64) -> Duration {
            self.count += 1;
            let comes_at = self.now + Duration::from_micros(micros);
            let begun = self.now;
            let expected = Expected(self.count, next);
            while self.now < comes_at && self.waits.keeps_polling(self.now, expected) {
                self.now += Duration::from_micros(1);
                self.waits.woken_at = self.now;
            }
            let looked = self.now - begun;
            self.now = comes_at;
            self.waits.woken_at = comes_at;
            looked
        }
    }

    #[test]
    fn what_comes_soon_is_looked_for_and_the_thread_does_not_sleep() {
        let mut thread = Thread::new();
        let looked = [50; 5].map(|micros| thread.wait(Next::Answer, micros));
        // The third is the first of which two are known to have come soon.
        assert_eq!(looked[..2], [Duration::ZERO; 2]);
        assert_eq!(looked[2..], [Duration::from_micros(50); 3]);
    }

    #[test]
    fn what_takes_long_is_looked_for_no_longer_than_the_limit_and_soon_not_at_all() {
        let mut thread = Thread::new();
        for _ in 0..9 {
            thread.wait(Next::Answer, 50);
        }
        let looked = [5000; 5].map(|micros| thread.wait(Next::Answer, micros));
        assert_eq!(looked[..2], [LIMIT; 2]);
        assert_eq!(looked[2..], [Duration::ZERO; 3]);
    }

    #[test]
    fn a_caller_that_comes_rarely_does_not_keep_its_answers_from_being_looked_for() {
        let mut thread = Thread::new();
        for _ in 0..9 {
            thread.wait(Next::Answer, 50);
            assert_eq!(thread.wait(Next::Operation, 100_000), Duration::ZERO);
        }
        let looked = thread.wait(Next::Answer, 50);
        assert_eq!(looked, Duration::from_micros(50));
    }

    #[test]
    fn a_thread_that_nothing_is_expected_of_sleeps() {
        let mut waits = Waits::new(LIMIT, Instant::now());
        waits.credit = [CREDIT_MAX; 2];
        assert!(!waits.keeps_polling(Instant::now(), Expected(0, Next::Operation)));
    }

    #[test]
    fn a_runtime_that_looks_for_events_still_serves_timers_and_sockets() {
        use tokio::{
            io::{AsyncReadExt as _, AsyncWriteExt as _},
            net::{TcpListener, TcpStream},
        };

        let mut builder = Builder::new_current_thread();
        install(&mut builder, Duration::from_millis(5));
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let echo = spawn_detached("echo", async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (mut reader, mut writer) = stream.split();
                tokio::io::copy(&mut reader, &mut writer).await.unwrap();
            });
            let mut stream = TcpStream::connect(address).await.unwrap();
            for at in 0..100 {
                stream.write_u8(at).await.unwrap();
                expect(Next::Answer);
                assert_eq!(stream.read_u8().await.unwrap(), at);
                expect(Next::Operation);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            drop(stream);
            echo.await.unwrap();
        });
    }
}
