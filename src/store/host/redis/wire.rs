//! A connection over which calls are pipelined: each is written behind the one before, and the
//! server answers in the same order.
//!
//! The library's connection does the same with a queue, a channel and a timer for each call, which
//! was a third of what a pair of acquire and release cost a coordinator. Here a caller writes its
//! commands to the buffer that is sent next, one timer serves all, and the driver does no more than
//! move bytes and hand answers out.

use std::{
    collections::VecDeque,
    fmt, io, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use deadpool_redis::redis::Value;
use futures::{future::poll_fn, task::AtomicWaker};
use lockkeeper_base::tasks::spawn_detached;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{oneshot, watch},
    time::{Instant, Sleep, sleep_until, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;

use super::resp;

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

/// Why a call has no answer.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Failure {
    /// It was not sent, because the connection is closed.
    #[error("the connection was lost")]
    Closed,
    /// It was not sent, because the server takes nothing.
    #[error("the server has stopped answering")]
    NoRoom,
    /// It was sent, and the answer did not come in time.
    #[error("no answer in time")]
    Silent,
    /// It was sent, and then the connection was lost.
    #[error("{0}")]
    Lost(String),
}

type Outcome = Result<Vec<Value>, Failure>;

/// What callers and the driver have in common.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Whether [`UNSENT_BYTES_MAX`] are not written yet.
    is_full: watch::Sender<bool>,
    /// Wakes the driver.
    unsent: AtomicWaker,
}

#[derive(Default)]
struct Queue {
    unsent: Vec<u8>,
    /// The calls that are not answered yet, in the order of their commands.
    calls: VecDeque<Sent>,
    /// No call that still waits has an earlier deadline.
    earliest: Option<Instant>,
    is_closed: bool,
}

struct Sent {
    commands: usize,
    answers: Vec<Value>,
    deadline: Option<Instant>,
    /// None once it has an outcome: its answers are still to come.
    caller: Option<oneshot::Sender<Outcome>>,
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
    pub(super) async fn send(
        &self,
        commands: usize,
        deadline: Option<Instant>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Outcome {
        if *self.shared.is_full.borrow() {
            // Boxed, as it is rare: every call would carry its state otherwise.
            Box::pin(self.shared.has_room(deadline)).await?;
        }
        let answer = self.shared.push(commands, deadline, write)?;
        let closed = || Failure::Lost("the connection was closed".to_owned());
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

// === impl Failure ===

impl Failure {
    /// Whether the server may have the commands.
    pub(super) fn was_sent(&self) -> bool {
        matches!(self, Self::Silent | Self::Lost(_))
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
        commands: usize,
        deadline: Option<Instant>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<oneshot::Receiver<Outcome>, Failure> {
        let (caller, answer) = oneshot::channel();
        let mut queue = self.queue.lock();
        if queue.is_closed {
            return Err(Failure::Closed);
        }
        write(&mut queue.unsent);
        if queue.unsent.len() >= UNSENT_BYTES_MAX {
            self.is_full.send_replace(true);
        }
        queue.calls.push_back(Sent {
            commands,
            answers: Vec::with_capacity(commands),
            deadline,
            caller: Some(caller),
        });
        let earlier = deadline.filter(|it| queue.earliest.is_none_or(|earliest| *it < earliest));
        queue.earliest = earlier.or(queue.earliest);
        drop(queue);
        self.unsent.wake();
        Ok(answer)
    }

    fn close(&self, why: &str) {
        let calls = {
            let mut queue = self.queue.lock();
            queue.is_closed = true;
            queue.unsent = Vec::new();
            mem::take(&mut queue.calls)
        };
        for mut call in calls {
            call.ends(Err(Failure::Lost(why.to_owned())));
        }
        self.is_full.send_replace(false);
    }
}

// === impl Queue ===

impl Queue {
    /// Adds an answer to those of the oldest call. Returns the call if that was its last.
    fn answered(&mut self, answer: Value) -> io::Result<Option<Sent>> {
        let unasked = || io::Error::other("the server has answered what it was not asked");
        let call = self.calls.front_mut().ok_or_else(unasked)?;
        call.answers.push(answer);
        let is_last = call.answers.len() == call.commands;
        Ok(if is_last {
            self.calls.pop_front()
        } else {
            None
        })
    }

    /// Ends the calls whose time is over. Their answers are still to come.
    fn expire(&mut self, now: Instant) {
        self.earliest = None;
        for call in &mut self.calls {
            let Some(deadline) = call.deadline.filter(|_| call.caller.is_some()) else {
                continue;
            };
            if deadline <= now {
                call.ends(Err(Failure::Silent));
            } else if self.earliest.is_none_or(|earliest| deadline < earliest) {
                self.earliest = Some(deadline);
            }
        }
    }
}

// === impl Sent ===

impl Sent {
    fn ends(&mut self, outcome: Outcome) {
        if let Some(caller) = self.caller.take() {
            // It may not wait any more.
            let _ = caller.send(outcome);
        }
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
        mem::swap(&mut queue.unsent, &mut self.output);
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
        for mut call in self.answered.drain(..) {
            let answers = mem::take(&mut call.answers);
            call.ends(Ok(answers));
        }
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
            let Some(earliest) = queue.earliest else {
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
