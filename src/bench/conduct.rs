//! Runs the tasks of a scenario until the measurement is over, a signal ends it, or all have ended;
//! and makes sure that none is left.

use std::{io, pin::pin, sync::Arc, thread, time::Duration};

use futures::future::join_all;
use lockkeeper_cli::{exit, failure::Failure};
use serde_json::Value;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use super::{progress::Progress, stage::Stage};

/// How long operations under way may take to end by themselves: after the measurement, and after a
/// signal.
const GRACE: Duration = Duration::from_secs(10);
const GRACE_OF_SIGNAL: Duration = Duration::from_secs(1);

/// How long tasks may take to end once they are cancelled.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// The outcome of a scenario.
pub(super) struct Played {
    pub(super) stage: Arc<Stage>,
    /// The signal that ended it early.
    pub(super) signal: Option<i32>,
    /// Figures of this scenario only.
    pub(super) extra: Vec<(&'static str, Value)>,
}

/// The signals that end a run.
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

// === impl Played ===

impl Played {
    pub(super) fn new(stage: Arc<Stage>, signal: Option<i32>) -> Self {
        Self {
            stage,
            signal,
            extra: Vec::new(),
        }
    }
}

// === impl Interrupts ===

impl Interrupts {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The number of the next one. Cancel safe.
    pub(super) async fn next(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        };
        kind.as_raw_value()
    }
}

/// Waits until the tasks of a scenario have ended. Fails if one panicked.
pub(super) async fn conduct(
    stage: &Arc<Stage>,
    tasks: Vec<JoinHandle<()>>,
    interrupts: &mut Interrupts,
) -> Result<Played, Failure> {
    let _progress = Progress::show(stage);
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
    Ok(Played::new(Arc::clone(stage), signal))
}

/// Has its own thread, because tokio's timers are too coarse.
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
