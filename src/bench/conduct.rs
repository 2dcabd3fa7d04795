//! How a run ends: at its time, or when a signal asks for it, or because all of its tasks have
//! ended; and that it leaves nothing behind.

use std::{io, pin::pin, sync::Arc, thread, time::Duration};

use futures::future::join_all;
use lockkeeper_cli::{exit, failure::Failure};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use super::stage::Stage;

/// How long what has begun may take to come to its end by itself: after the end of the time, and
/// after a signal.
const GRACE: Duration = Duration::from_secs(10);
const GRACE_OF_SIGNAL: Duration = Duration::from_secs(1);

/// How long the rest may take once it was asked to end.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// The signals that end a run.
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

// === impl Interrupts ===

impl Interrupts {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The number of the next one. May be dropped and asked again.
    pub(super) async fn next(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        };
        kind.as_raw_value()
    }
}

/// Waits until tasks that repeat something have ended. Returns the signal that ended them before
/// their time.
pub(super) async fn conduct(
    stage: &Arc<Stage>,
    tasks: Vec<JoinHandle<()>>,
    interrupts: &mut Interrupts,
) -> Result<Option<i32>, Failure> {
    let pacemaker = pacemaker(stage)?;
    let mut tasks = pin!(join_all(tasks.into_iter().map(AbortOnDropHandle::new)));
    let (mut ended, signal) = tokio::select! {
        biased;
        signal = interrupts.next() => (None, Some(signal)),
        ended = &mut tasks => (Some(ended), None),
        () = stage.timeline.sleep_until_end() => (None, None),
    };
    stage.timeline.end_now();
    if ended.is_none() {
        let grace = if signal.is_some() {
            GRACE_OF_SIGNAL
        } else {
            GRACE
        };
        ended = timeout(grace, &mut tasks).await.ok();
    }
    stage.stop.cancel();
    if ended.is_none() {
        ended = timeout(STOP_GRACE, &mut tasks).await.ok();
    }
    let is_broken = ended
        .as_ref()
        .is_some_and(|ended| ended.iter().any(Result::is_err));
    if ended.is_none() {
        let why = "something was not answered in time after the end";
        stage.tally(0).fault(why);
    }
    if is_broken || pacemaker.is_some_and(|it| it.join().is_err()) {
        return Err(Failure::local(
            exit::INTERNAL,
            "a task of the run has panicked",
        ));
    }
    stage.count_backlog();
    Ok(signal)
}

/// A thread of its own, because tokio's timers are too coarse for it.
fn pacemaker(stage: &Arc<Stage>) -> io::Result<Option<thread::JoinHandle<()>>> {
    if stage.plan.rate.is_none() {
        return Ok(None);
    }
    let stage = Arc::clone(stage);
    let thread = thread::Builder::new().name("pacemaker".to_owned());
    thread
        .spawn(move || stage.pace.beat(&stage.timeline))
        .map(Some)
}
