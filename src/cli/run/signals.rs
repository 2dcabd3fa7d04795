//! Signals, handled from the start of the process.

use std::{future::poll_fn, io, task::Poll};

use futures::FutureExt as _;
use lockkeeper_base::signals;
use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

/// The forwarded signals, and TSTP, which is handled so that it does not stop this process: a
/// stopped lockkeeper would not renew the lock.
const HANDLED: [Signal; 7] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
];

/// The signals that this process receives.
pub(super) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

/// Whether a signal asks a process to end.
pub(super) fn is_termination(signal: Signal) -> bool {
    matches!(
        signal,
        Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT
    )
}

// === impl Signals ===

impl Signals {
    /// Handles signals from now on, except those that were ignored when this process started, as
    /// under `nohup`.
    pub(super) fn listen() -> io::Result<Self> {
        let mut streams = Vec::new();
        for signal in HANDLED {
            if !signals::is_ignored(signal as i32) {
                streams.push((signal, unix::signal(SignalKind::from_raw(signal as i32))?));
            }
        }
        Ok(Self { streams })
    }

    /// The next signal. Cancel safe.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// A signal that is pending.
    pub(super) fn pending(&mut self) -> Option<Signal> {
        self.next().now_or_never()
    }
}
