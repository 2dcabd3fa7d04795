//! A connection over which calls are pipelined: each is written behind the one before, and the
//! server answers in the same order.
//!
//! The library's connection does the same with a queue, a channel and a timer for each call, which
//! was a third of what a pair of acquire and release cost a coordinator. Here a caller writes its
//! commands to the buffer that is sent next, one timer serves all, and the driver does no more than
//! move bytes and hand answers out.

use std::{
    fmt, io, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use deadpool_redis::redis::Value;
use futures::{future::poll_fn, task::AtomicWaker};
use lockkeeper_base::tasks::spawn_detached;
use parking_lot::Mutex;
use scopeguard::{ScopeGuard, guard};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
    time::{Instant, Sleep, sleep_until, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    queue::{Answers, Failure, Outcome, Queue, Sent},
    resp,
};

/// Callers wait for room while so much is not written yet, inside their time limit; a later one may
/// overtake them.
const UNSENT_BYTES_MAX: usize = 256 * 1024;

/// What is kept of a larger buffer of commands.
const OUTPUT_BYTES_KEPT: usize = 64 * 1024;

/// What is read at once. The buffer grows for a larger answer only.
const INPUT_BYTES: usize = 16 * 1024;

/// Bytes to a server and back.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection over which calls are pipelined. Dropping it closes the connection.
pub(super) struct Wire {
    shared: Arc<Shared>,
    _driver: AbortOnDropHandle<()>,
}

/// What callers and the driver have in common.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Whether [`UNSENT_BYTES_MAX`] are not written yet.
    is_full: watch::Sender<bool>,
    /// Wakes the driver.
    unsent: AtomicWaker,
}

struct Driver {
    shared: Arc<Shared>,
    stream: Box<dyn Stream>,
    /// What is being written, and how much of it was.
    output: Vec<u8>,
    written: usize,
    is_flushed: bool,
    /// What was read, in its first bytes.
    input: Vec<u8>,
    read: usize,
    /// Calls that are answered, until their callers are woken.
    answered: Vec<Sent>,
    timer: Pin<Box<Sleep>>,
    /// What the timer was set to last.
    armed: Option<Instant>,
}

// === impl Wire ===

impl Wire {
    /// Sends calls over this stream. `lost` is called when the connection is lost.
    pub(super) fn open(stream: Box<dyn Stream>, lost: impl FnOnce() + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let mut driver = Driver::new(Arc::clone(&shared), stream);
        let driver = spawn_detached("redis-wire", async move {
            let why = poll_fn(|cx| driver.poll_run(cx)).await;
            lost();
            driver.shared.close(&why.to_string());
        });
        Self {
            shared,
            _driver: AbortOnDropHandle::new(driver),
        }
    }

    /// Sends the commands that `write` writes, one at least, and returns the answer of each, which
    /// may be an error. Without a deadline it waits as long as the connection lasts.
    pub(super) fn send(
        &self,
        commands: usize,
        deadline: Option<Instant>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> impl Future<Output = Outcome> {
        self.add(deadline, move |queue| queue.push(commands, deadline, write))
    }

    /// The same, in a transaction that commands of other callers may share. If the server refuses
    /// one of them, it carries out none, and an error is returned as the answer of each. Calls that
    /// are made later may overtake the transaction while its callers wait.
    pub(super) async fn send_in_transaction(
        &self,
        commands: usize,
        deadline: Option<Instant>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Outcome {
        let left = guard(&self.shared, |shared| shared.queue.lock().end_transaction());
        let push = |queue: &mut Queue| queue.push_in_transaction(commands, deadline, write);
        let outcome = self.add(deadline, push).await;
        ScopeGuard::into_inner(left);
        outcome
    }

    /// Has a call added to the queue, and waits for its answers.
    async fn add(
        &self,
        deadline: Option<Instant>,
        add: impl FnOnce(&mut Queue) -> Result<Answers, Failure>,
    ) -> Outcome {
        if *self.shared.is_full.borrow() {
            // Boxed, as it is rare: every call would carry its state otherwise.
            Box::pin(self.shared.has_room(deadline)).await?;
        }
        let closed = || Failure::Lost("the connection was closed".to_owned());
        let answers = self.shared.push(add)?;
        answers.await.unwrap_or_else(|_| Err(closed()))
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

// === impl Shared ===

impl Shared {
    /// Waits until what is not written yet has room for more.
    async fn has_room(&self, deadline: Option<Instant>) -> Result<(), Failure> {
        let mut is_full = self.is_full.subscribe();
        let room = is_full.wait_for(|it| !it);
        let outcome = if let Some(deadline) = deadline {
            timeout_at(deadline, room).await
        } else {
            Ok(room.await)
        };
        outcome.map(drop).map_err(|_elapsed| Failure::NoRoom)
    }

    fn push(
        &self,
        add: impl FnOnce(&mut Queue) -> Result<Answers, Failure>,
    ) -> Result<Answers, Failure> {
        let mut queue = self.queue.lock();
        let answers = add(&mut queue)?;
        if queue.unsent() >= UNSENT_BYTES_MAX {
            self.is_full.send_replace(true);
        }
        drop(queue);
        self.unsent.wake();
        Ok(answers)
    }

    fn close(&self, why: &str) {
        let failure = Failure::Lost(why.to_owned());
        let calls = self.queue.lock().close();
        for call in calls {
            call.fails(&failure);
        }
        self.is_full.send_replace(false);
    }
}

// === impl Driver ===

impl Driver {
    fn new(shared: Arc<Shared>, stream: Box<dyn Stream>) -> Self {
        Self {
            shared,
            stream,
            output: Vec::new(),
            written: 0,
            is_flushed: true,
            input: vec![0; INPUT_BYTES],
            read: 0,
            answered: Vec::new(),
            timer: Box::pin(sleep_until(Instant::now())),
            armed: None,
        }
    }

    /// Writes, reads and looks at the time, until the connection is lost.
    fn poll_run(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        self.shared.unsent.register(cx.waker());
        self.poll_expire(cx);
        loop {
            if let Poll::Ready(Err(error)) = self.poll_write(cx) {
                return Poll::Ready(error);
            }
            // Also while nothing can be written: the server may be waiting for us to read.
            let answers = match self.poll_read(cx) {
                Poll::Ready(Ok(())) => self.hand_out(),
                Poll::Ready(Err(error)) => Err(error),
                Poll::Pending => return Poll::Pending,
            };
            if let Err(error) = answers {
                return Poll::Ready(error);
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.has_output() {
            let rest = &self.output[self.written..];
            let written = std::task::ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
            self.is_flushed = false;
        }
        if !self.is_flushed {
            std::task::ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Takes what callers have written since, when all that was taken before is written.
    fn has_output(&mut self) -> bool {
        if self.written < self.output.len() {
            return true;
        }
        self.output.clear();
        self.output.shrink_to(OUTPUT_BYTES_KEPT);
        self.written = 0;
        let mut queue = self.shared.queue.lock();
        queue.take_unsent(&mut self.output);
        self.shared.is_full.send_if_modified(mem::take);
        !self.output.is_empty()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut room = ReadBuf::new(&mut self.input[self.read..]);
        std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, &mut room))?;
        let read = room.filled().len();
        self.read += read;
        Poll::Ready(if read == 0 {
            Err(io::Error::other("the server has closed the connection"))
        } else {
            Ok(())
        })
    }

    /// Hands the answers out that are whole.
    fn hand_out(&mut self) -> io::Result<()> {
        let taken = self.take_answers();
        self.answered.drain(..).for_each(Sent::succeeds);
        let taken = taken?;
        self.input.copy_within(taken..self.read, 0);
        self.read -= taken;
        if self.read == self.input.len() {
            self.input.resize(2 * self.read, 0);
        } else if self.read == 0 && self.input.len() > INPUT_BYTES {
            self.input = vec![0; INPUT_BYTES];
        }
        Ok(())
    }

    /// Takes the calls out of the queue that are answered, but wakes nobody: callers need the
    /// queue. Returns how much of the input that was.
    fn take_answers(&mut self) -> io::Result<usize> {
        let mut taken = 0;
        let mut queue = self.shared.queue.lock();
        while let Some((answer, bytes)) = resp::answer(&self.input[taken..self.read])? {
            taken += bytes;
            // Nothing is subscribed to on this connection.
            if !matches!(answer, Value::Push { .. }) {
                self.answered.extend(queue.answered(answer)?);
            }
        }
        Ok(taken)
    }

    /// One timer for the earliest deadline. It is not set back when that call is answered: most
    /// have the same time limit, so it fires once in that time, and is set to what is earliest
    /// then.
    fn poll_expire(&mut self, cx: &mut Context<'_>) {
        loop {
            let mut queue = self.shared.queue.lock();
            let Some(earliest) = queue.earliest() else {
                return;
            };
            if self.armed != Some(earliest) {
                self.armed = Some(earliest);
                self.timer.as_mut().reset(earliest);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return;
            }
            self.armed = None;
            queue.expire(Instant::now());
        }
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
