//! Callers that acquire and release a lock with frames on a session's stream: one task for all
//! callers of a connection.

use std::{pin::pin, sync::Arc};

use futures::FutureExt as _;
use lockkeeper_api::pb::{
    AcquireRequest, Grant, ReleaseRequest, SessionResponse, TryAcquireRequest,
    session_request::Request, session_response::Response,
};
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_cli::failure::status_of;
use tokio::task::{JoinHandle, yield_now};
use tonic::Status;

use super::{
    plan::{Caller, Target},
    session::Session,
    stage::{Stage, Taken},
    tally::Tally,
    timeline::Next,
};

/// The callers of one connection.
struct Conversation {
    stage: Arc<Stage>,
    connection: usize,
    session: Session,
    seats: Vec<Seat>,
    /// The grants of the last answers.
    held: Vec<Held>,
    /// The seats without an operation under way.
    idle: Vec<usize>,
    /// Whether no more operations begin.
    is_over: bool,
}

/// One caller. Its operations have its number, counted from 1, as their `op_id`.
struct Seat {
    caller: Caller,
    /// Unique in the session, so that callers exclude each other.
    owner: String,
    failures: u64,
    under_way: UnderWay,
}

/// The parts of a grant that its release needs.
struct Held {
    seat: usize,
    name: String,
    owner: String,
}

enum UnderWay {
    Nothing,
    Take(Target, u64),
    Release(Taken),
}

/// Starts a task for each session.
pub(super) fn start(stage: &Arc<Stage>, sessions: Vec<Session>) -> Vec<JoinHandle<()>> {
    let tasks = sessions
        .into_iter()
        .enumerate()
        .map(|(connection, session)| {
            let conversation = Conversation::new(Arc::clone(stage), connection, session);
            spawn_detached("conversation", conversation.run())
        });
    tasks.collect()
}

// === impl Conversation ===

impl Conversation {
    fn new(stage: Arc<Stage>, connection: usize, session: Session) -> Self {
        let share = stage.plan.share(stage.plan.in_flight, connection);
        let seat = |nth: usize| Seat {
            caller: Caller::new(nth * stage.plan.connections + connection),
            owner: if stage.plan.waits() {
                nth.to_string()
            } else {
                String::new()
            },
            failures: 0,
            under_way: UnderWay::Nothing,
        };
        let seats: Vec<_> = (0..share).map(seat).collect();
        Self {
            idle: (0..seats.len()).rev().collect(),
            stage,
            connection,
            session,
            seats,
            held: Vec::new(),
            is_over: false,
        }
    }

    /// Ends with the run, or with the first fault; then closes the session.
    async fn run(mut self) {
        let stage = Arc::clone(&self.stage);
        if let Err(status) = self.converse(&stage).await {
            stage.tally(self.connection).failed(&status);
        }
        if let Err(status) = self.session.close().await {
            stage.tally(self.connection).failed(&status);
        }
    }

    async fn converse(&mut self, stage: &Stage) -> Result<(), Status> {
        let mut stopped = pin!(stage.stop.cancelled());
        loop {
            self.begin_all_due(stage.timeline.now());
            self.session.send();
            if self.is_over && self.idle.len() == self.seats.len() {
                return Ok(());
            }
            let can_begin = !self.is_over && !self.idle.is_empty();
            tokio::select! {
                biased;
                () = &mut stopped => return Ok(()),
                due = stage.pace.next(&stage.timeline), if can_begin => match due {
                    Some(due) => self.begin(due),
                    None => self.is_over = true,
                },
                answer = self.session.next() => {
                    let goes_on = self.take_all_answers(answer)?;
                    if stage.plan.waits() && !self.held.is_empty() {
                        // Another holder, if there is one, runs now.
                        yield_now().await;
                    }
                    self.release_all_held();
                    if !goes_on {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn begin_all_due(&mut self, now: u64) {
        while !self.is_over && !self.idle.is_empty() {
            match self.stage.pace.try_next(&self.stage.timeline, now) {
                Next::Due(due) => self.begin(due),
                Next::NotYet => return,
                Next::Over => self.is_over = true,
            }
        }
    }

    fn begin(&mut self, due: u64) {
        let Some(number) = self.idle.pop() else {
            return;
        };
        let (seat, plan) = (&mut self.seats[number], &self.stage.plan);
        let target = seat.caller.next(plan);
        seat.under_way = UnderWay::Take(target, due);
        let name = self.stage.locks[target.lock].name.clone();
        let (mode, owner) = (target.mode.into(), seat.owner.clone());
        let request = if plan.waits() {
            Request::Acquire(AcquireRequest {
                name,
                mode,
                owner,
                ..AcquireRequest::default()
            })
        } else {
            Request::TryAcquire(TryAcquireRequest {
                name,
                mode,
                owner,
                ..TryAcquireRequest::default()
            })
        };
        self.session.collect(number as u64 + 1, request);
    }

    /// Handles an answer and all others that have arrived. False after a fault or the stream's end.
    fn take_all_answers(
        &mut self,
        first: Option<Result<SessionResponse, Status>>,
    ) -> Result<bool, Status> {
        let stage = Arc::clone(&self.stage);
        let mut tally = stage.tally(self.connection);
        let mut next = Some(first);
        // All have arrived by now; the time to handle them is not part of their latency.
        let at = stage.timeline.now();
        while let Some(answer) = next {
            let Some(answer) = answer else {
                tally.fault("the coordinator ended a session's stream");
                return Ok(false);
            };
            // With waiters, the order of the moments matters.
            let at = if stage.plan.waits() {
                stage.timeline.now()
            } else {
                at
            };
            self.take_answer(&mut tally, answer?, at);
            next = self.session.next().now_or_never();
        }
        Ok(tally.faults == 0)
    }

    fn take_answer(&mut self, tally: &mut Tally, frame: SessionResponse, at: u64) {
        let Some(response) = frame.response else {
            return tally.fault("a frame without an answer");
        };
        match response {
            Response::Waiting(_) | Response::AtRisk(_) | Response::Recovered(_) => return,
            Response::Lost(_) => return self.stage.seen.lost(),
            Response::GoingAway(_) => return tally.fault("the coordinator stops"),
            _ => {}
        }
        let number = usize::try_from(frame.op_id)
            .ok()
            .and_then(|it| it.checked_sub(1));
        let Some((number, seat)) =
            number.and_then(|number| Some((number, self.seats.get_mut(number)?)))
        else {
            return tally.fault("an answer to no operation");
        };
        let under_way = std::mem::replace(&mut seat.under_way, UnderWay::Nothing);
        match (under_way, response) {
            (UnderWay::Take(target, due), Response::Granted(grant)) => {
                return self.hold(tally, number, target, grant, (due, at));
            }
            (UnderWay::Take(target, due), Response::Tried(answer)) => match answer.grant {
                Some(grant) if answer.acquired => {
                    return self.hold(tally, number, target, grant, (due, at));
                }
                _ => self.stage.not_acquired(tally, target),
            },
            (UnderWay::Take(target, _), Response::NotGranted(_)) => {
                self.stage.not_acquired(tally, target);
            }
            (UnderWay::Release(taken), Response::Released(answer)) => {
                self.stage.released(tally, &taken, answer.released, at);
            }
            (UnderWay::Take(target, _), Response::Failed(status)) => {
                self.failed(tally, number, target, &status);
            }
            (UnderWay::Release(taken), Response::Failed(status)) => {
                self.failed(tally, number, taken.target, &status);
            }
            _ => tally.fault("an answer to something else"),
        }
        self.idle.push(number);
    }

    fn hold(
        &mut self,
        tally: &mut Tally,
        number: usize,
        target: Target,
        grant: Grant,
        times: (u64, u64),
    ) {
        let taken = self.stage.granted(tally, number, target, &grant, times);
        self.seats[number].under_way = UnderWay::Release(taken);
        self.held.push(Held {
            seat: number,
            name: grant.name,
            owner: grant.owner,
        });
    }

    fn release_all_held(&mut self) {
        for Held { seat, name, owner } in self.held.drain(..) {
            let UnderWay::Release(taken) = &mut self.seats[seat].under_way else {
                continue;
            };
            self.stage.leave(taken);
            let request = ReleaseRequest {
                name,
                owner,
                mode: taken.target.mode.into(),
                ..ReleaseRequest::default()
            };
            let request = Request::Release(request);
            self.session.collect(seat as u64 + 1, request);
        }
    }

    fn failed(
        &mut self,
        tally: &mut Tally,
        number: usize,
        target: Target,
        status: &tonic_types::Status,
    ) {
        self.stage.failed(tally, target, &status_of(status));
        // The next caller must not inherit a hold of the old owner.
        let seat = &mut self.seats[number];
        seat.failures += 1;
        seat.owner = format!("{number}-{}", seat.failures);
    }
}
