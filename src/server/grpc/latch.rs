//! `LatchService` and the conversion of its messages.

use lockkeeper_access::Right;
use lockkeeper_coordinator::{
    Answer, AwaitLatch, CountDown, CountSet, Error, Invalid, LatchAnswer, LatchDescription,
    LatchOperation, Lease, Operation, SetCount,
};
use tonic::{Request, Response, Status};

use super::{
    answers::{Answers, Said},
    audit, auth,
    call::{Calls, within},
    convert::{Requests, duration, proto_wait_end, whole_millis},
    pb::{self, session_response::Response as Frame},
    status::{status, unexpected_answer},
};

/// Serves `LatchService`.
#[derive(Clone, Debug)]
pub(super) struct LatchService {
    pub(super) calls: Calls,
}

#[tonic::async_trait]
impl pb::latch_service_server::LatchService for LatchService {
    type AwaitLatchStream = Answers<pb::AwaitLatchResponse>;

    async fn set_count(
        &self,
        request: Request<pb::SetCountRequest>,
    ) -> Result<Response<pb::SetCountResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self.calls.requests(&account).set_count(request.get_ref());
        let answer = |answer| match answer {
            Answer::Latch(LatchAnswer::Set(set)) => Ok(count_set(set)),
            _ => Err(unexpected_answer()),
        };
        self.calls.run(operation, answer).await
    }

    async fn count_down(
        &self,
        request: Request<pb::CountDownRequest>,
    ) -> Result<Response<pb::CountDownResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self.calls.requests(&account).count_down(request.get_ref());
        let answer = |answer| match answer {
            Answer::Latch(LatchAnswer::CountedDown(count)) => Ok(pb::CountDownResponse { count }),
            _ => Err(unexpected_answer()),
        };
        self.calls.run(operation, answer).await
    }

    async fn await_latch(
        &self,
        request: Request<pb::AwaitLatchRequest>,
    ) -> Result<Response<Self::AwaitLatchStream>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let account = auth::account(&extensions);
        let operation =
            self.calls
                .requests(&account)
                .await_latch(&request)
                .map(|mut await_latch| {
                    await_latch.wait = within(await_latch.wait, &metadata);
                    Operation::Latch(LatchOperation::Await(await_latch))
                });
        self.calls.wait(account, operation, said)
    }

    async fn describe_latch(
        &self,
        request: Request<pb::DescribeLatchRequest>,
    ) -> Result<Response<pb::DescribeLatchResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self
            .calls
            .requests(&account)
            .describe_latch(request.get_ref());
        let answer = |answer| match answer {
            Answer::Latch(LatchAnswer::Described(seen)) => Ok(described(&seen)),
            _ => Err(unexpected_answer()),
        };
        self.calls.run(operation, answer).await
    }

    async fn delete_latch(
        &self,
        request: Request<pb::DeleteLatchRequest>,
    ) -> Result<Response<pb::DeleteLatchResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self
            .calls
            .requests(&account)
            .delete_latch(request.get_ref());
        let answer = |answer| match answer {
            Answer::Latch(LatchAnswer::Deleted(deleted)) => Ok(pb::DeleteLatchResponse { deleted }),
            _ => Err(unexpected_answer()),
        };
        self.calls.run(operation, answer).await
    }
}

// === impl Requests ===

impl Requests<'_> {
    pub(super) fn set_count(&self, request: &pb::SetCountRequest) -> Result<Operation, Error> {
        let limits = self.coordinator.limits();
        let ttl = |ttl| Ok::<_, Error>(Lease::named("ttl", duration("ttl", ttl)?, limits)?.get());
        let name = self.name(&request.name, Right::Acquire)?;
        audit::allowed(self.account, "SetCount", name.told());
        let operation = LatchOperation::Set(SetCount {
            name,
            count: at_least_one("count", request.count)?,
            ttl: request.ttl.map(ttl).transpose()?,
            request_id: self.request_id(&request.request_id)?,
        });
        Ok(Operation::Latch(operation))
    }

    pub(super) fn count_down(&self, request: &pb::CountDownRequest) -> Result<Operation, Error> {
        let operation = LatchOperation::CountDown(CountDown {
            name: self.name(&request.name, Right::Acquire)?,
            by: at_least_one("by", request.by)?,
            request_id: self.request_id(&request.request_id)?,
        });
        Ok(Operation::Latch(operation))
    }

    pub(super) fn await_latch(&self, request: &pb::AwaitLatchRequest) -> Result<AwaitLatch, Error> {
        let wait = request
            .wait_timeout
            .map(|wait| duration("wait_timeout", wait));
        Ok(AwaitLatch {
            name: self.name(&request.name, Right::Acquire)?,
            session: self.session(&request.session_id)?,
            wait: wait.transpose()?,
        })
    }

    pub(super) fn describe_latch(
        &self,
        request: &pb::DescribeLatchRequest,
    ) -> Result<Operation, Error> {
        let name = self.name(&request.name, Right::Describe)?;
        Ok(Operation::Latch(LatchOperation::Describe(name)))
    }

    pub(super) fn delete_latch(
        &self,
        request: &pb::DeleteLatchRequest,
    ) -> Result<Operation, Error> {
        let name = self.name(&request.name, Right::Acquire)?;
        audit::allowed(self.account, "DeleteLatch", name.told());
        Ok(Operation::Latch(LatchOperation::Delete(name)))
    }
}

fn at_least_one(field: &'static str, number: u32) -> Result<u32, Invalid> {
    if number == 0 {
        return Err(Invalid::new(field, "must be at least 1"));
    }
    Ok(number)
}

fn count_set(set: CountSet) -> pb::SetCountResponse {
    pb::SetCountResponse {
        set: set.set,
        count: set.count,
    }
}

fn described(seen: &LatchDescription) -> pb::DescribeLatchResponse {
    pb::DescribeLatchResponse {
        name: seen.name.told().to_owned(),
        count: seen.count,
        remaining_ttl: seen.remaining.map(whole_millis),
        waiter_count: u32::try_from(seen.waiter_count).unwrap_or(u32::MAX),
    }
}

fn not_opened(cancelled: bool, count: u32) -> pb::LatchNotOpened {
    pb::LatchNotOpened {
        reason: proto_wait_end(cancelled).into(),
        count,
    }
}

/// An answer of `AwaitLatch`.
fn said(answer: Answer) -> Said<pb::AwaitLatchResponse> {
    use pb::await_latch_response::Event;
    let said = |event| pb::AwaitLatchResponse { event: Some(event) };
    Said::Last(match answer {
        Answer::Latch(LatchAnswer::Waiting(count)) => {
            return Said::Waiting(said(Event::Waiting(pb::WaitingForLatch { count })));
        }
        Answer::Latch(LatchAnswer::Opened) => Ok(said(Event::Opened(pb::LatchOpened {}))),
        Answer::Latch(LatchAnswer::NotOpened { cancelled, count }) => {
            Ok(said(Event::NotOpened(not_opened(cancelled, count))))
        }
        Answer::Failed(error) => Err(status(&error)),
        _ => Err(unexpected_answer()),
    })
}

/// An answer as a frame.
pub(super) fn response(answer: LatchAnswer) -> Frame {
    match answer {
        LatchAnswer::Set(set) => Frame::CountSet(count_set(set)),
        LatchAnswer::CountedDown(count) => Frame::CountedDown(pb::CountDownResponse { count }),
        LatchAnswer::Waiting(count) => Frame::WaitingForLatch(pb::WaitingForLatch { count }),
        LatchAnswer::Opened => Frame::LatchOpened(pb::LatchOpened {}),
        LatchAnswer::NotOpened { cancelled, count } => {
            Frame::LatchNotOpened(not_opened(cancelled, count))
        }
        LatchAnswer::Described(seen) => Frame::LatchDescribed(described(&seen)),
        LatchAnswer::Deleted(deleted) => Frame::LatchDeleted(pb::DeleteLatchResponse { deleted }),
    }
}
