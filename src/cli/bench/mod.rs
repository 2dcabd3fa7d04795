//! The load generator: drives a coordinator as its clients would, measures, and watches with its own eyes that a lock stays one.

mod calls;
mod frames;
mod plan;
mod report;
mod session;
mod stage;
mod tally;
mod timeline;
mod witness;

use std::{sync::Arc, time::Duration};

use futures::future::{join_all, try_join_all};
use serde_json::Value;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
    time::{sleep_until, timeout},
};

use self::{
    plan::Plan,
    report::Report,
    session::{Session, not_opened},
    stage::Stage,
};
use super::{
    args::{BenchArgs, Scenario},
    client::{Client, connect},
    exit,
    failure::Failure,
    output::say,
};

/// How long operations that have begun may take after the end.
const GRACE: Duration = Duration::from_secs(10);

/// How long what was asked to end at once may take.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// How a run ended, other than by its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ending {
    /// By a signal, which wants the process to end.
    signal: Option<i32>,
}

/// Runs a benchmark; returns the exit code.
pub(super) async fn bench(args: BenchArgs) -> Result<u8, Failure> {
    let format = args.common.output;
    let plan = Plan::new(args)?;
    let clients = (0..plan.connections).map(|_| connect(&plan.server));
    let clients = try_join_all(clients).await?;
    let (stage, ending, extra) = match plan.scenario {
        Scenario::Uncontended | Scenario::Handover | Scenario::Fair | Scenario::ReadMostly => {
            cycles(plan, clients).await?
        }
        Scenario::Waiters | Scenario::Watch | Scenario::Churn => {
            return Err(Failure::local(exit::INTERNAL, "not yet there"));
        }
    };
    let report = Report::new(&stage, extra, ending.signal.is_some());
    format.data(&report.to_text(), &report.to_json())?;
    for why in report.void() {
        say(&format!("this run is void: {why}"));
    }
    Ok(match ending.signal {
        _ if !report.void().is_empty() => exit::VOID,
        Some(signal) => exit::by_signal(signal),
        None => exit::OK,
    })
}

/// What a scenario leaves: the stage, how it ended, and figures that only it has.
type Played = (Arc<Stage>, Ending, Vec<(&'static str, Value)>);

/// Locks that are taken and given back, again and again.
async fn cycles(plan: Plan, mut clients: Vec<Client>) -> Result<Played, Failure> {
    let (stage, tasks) = if plan.frames {
        let lease = plan.lease;
        let sessions = clients.iter_mut().map(|it| Session::open(it, lease));
        let sessions = try_join_all(sessions).await.map_err(not_opened)?;
        let stage = Arc::new(Stage::new(plan));
        let tasks = frames::start(&stage, sessions);
        (stage, tasks)
    } else {
        let stage = Arc::new(Stage::new(plan));
        let tasks = calls::start(&stage, &clients);
        (stage, tasks)
    };
    let ending = conduct(&stage, tasks).await?;
    Ok((stage, ending, Vec::new()))
}

/// Ends a run at its time, or when a signal asks for it, or when all tasks have ended.
async fn conduct(stage: &Arc<Stage>, tasks: Vec<JoinHandle<()>>) -> Result<Ending, Failure> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let pacemaker = pacemaker(stage)?;
    let mut tasks = std::pin::pin!(join_all(tasks));
    let mut ending = Ending::default();
    let mut ended = tokio::select! {
        biased;
        _ = interrupts.recv() => { ending.signal = Some(libc_number(SignalKind::interrupt())); None }
        _ = terminations.recv() => { ending.signal = Some(libc_number(SignalKind::terminate())); None }
        ended = &mut tasks => Some(ended),
        () = sleep_until(stage.timeline.end_at()) => None,
    };
    stage.timeline.end_now();
    if ended.is_none() && ending.signal.is_none() {
        ended = timeout(GRACE, &mut tasks).await.ok();
    }
    if ended.is_none() {
        // Those who wait may do so for ever; a short call may not.
        if ending.signal.is_none() && !stage.plan.waits() {
            stage.tally(0).fault(format!(
                "operations were not answered within {} s after the end",
                GRACE.as_secs()
            ));
        }
        stage.stop.cancel();
        ended = timeout(STOP_GRACE, &mut tasks).await.ok();
    }
    if pacemaker.is_some_and(|it| it.join().is_err())
        || ended.is_none_or(|ended| ended.iter().any(Result::is_err))
    {
        return Err(Failure::local(
            exit::INTERNAL,
            "a task did not end as it should",
        ));
    }
    stage.count_backlog();
    Ok(ending)
}

/// A thread of its own, because tokio's timers are too coarse for it.
fn pacemaker(stage: &Arc<Stage>) -> Result<Option<std::thread::JoinHandle<()>>, Failure> {
    if stage.plan.rate.is_none() {
        return Ok(None);
    }
    let stage = Arc::clone(stage);
    let thread = std::thread::Builder::new().name("pacemaker".to_owned());
    Ok(Some(
        thread.spawn(move || stage.pace.beat(&stage.timeline))?,
    ))
}

fn libc_number(kind: SignalKind) -> i32 {
    kind.as_raw_value()
}
