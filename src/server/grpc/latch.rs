//! `LatchService` and the conversion of its messages.

use lockkeeper_access::Right;
use lockkeeper_coordinator::{
    Answer, AwaitLatch, CountDown, CountSet, Error, Invalid, LatchDescription, LatchNotOpened,
    Lease, LockName, Operation, SetCount,
};

use super::{
    answers::Answers,
    audit, auth,
    call::{Calls, service, within},
    convert::{Requests, count, duration, proto_wait_end, wait, whole_millis},
    pb,
    status::status,
};

/// Serves `LatchService`.
#[derive(Clone, Debug)]
pub(super) struct LatchService {
    pub(super) calls: Calls,
}

service! {
    pb::latch_service_server::LatchService, LatchService, |calls, account|
    own {}
    asks {
        set_count(SetCountRequest) -> SetCountResponse, |it| count_set(it);
        count_down(CountDownRequest) -> CountDownResponse, |count| pb::CountDownResponse { count };
        describe_latch(DescribeLatchRequest) -> DescribeLatchResponse, |seen| described(&seen);
        delete_latch(DeleteLatchRequest) -> DeleteLatchResponse,
            |deleted| pb::DeleteLatchResponse { deleted };
    }
    waits {
        await_latch(AwaitLatchRequest) -> AwaitLatchStream(AwaitLatchResponse), AwaitLatch,
        await_latch_response {
            Answer::WaitingForLatch(count) => Event::Waiting(pb::WaitingForLatch { count }),
            Answer::LatchOpened(_) => Event::Opened(pb::LatchOpened {}),
            Answer::LatchNotOpened(it) => Event::NotOpened(not_opened(it)),
        };
    }
}

// === impl Requests ===

impl Requests<'_> {
    pub(super) fn set_count(&self, request: &pb::SetCountRequest) -> Result<SetCount, Error> {
        let limits = self.coordinator.limits();
        let ttl = |ttl| Ok::<_, Error>(Lease::named("ttl", duration("ttl", ttl)?, limits)?.get());
        let name = self.name(&request.name, Right::Acquire)?;
        audit::allowed(self.account, "SetCount", name.public());
        Ok(SetCount {
            name,
            count: at_least_one("count", request.count)?,
            ttl: request.ttl.map(ttl).transpose()?,
            request_id: self.request_id(&request.request_id)?,
        })
    }

    pub(super) fn count_down(&self, request: &pb::CountDownRequest) -> Result<CountDown, Error> {
        Ok(CountDown {
            name: self.name(&request.name, Right::Acquire)?,
            by: at_least_one("by", request.by)?,
            request_id: self.request_id(&request.request_id)?,
        })
    }

    pub(super) fn await_latch(&self, request: &pb::AwaitLatchRequest) -> Result<AwaitLatch, Error> {
        let wait = wait(request.wait_timeout);
        Ok(AwaitLatch {
            name: self.name(&request.name, Right::Acquire)?,
            session: self.session(&request.session_id)?,
            wait: wait?,
        })
    }

    pub(super) fn describe_latch(
        &self,
        request: &pb::DescribeLatchRequest,
    ) -> Result<LockName, Error> {
        self.name(&request.name, Right::Describe)
    }

    pub(super) fn delete_latch(&self, request: &pb::DeleteLatchRequest) -> Result<LockName, Error> {
        let name = self.name(&request.name, Right::Acquire)?;
        audit::allowed(self.account, "DeleteLatch", name.public());
        Ok(name)
    }
}

fn at_least_one(field: &'static str, number: u32) -> Result<u32, Invalid> {
    if number == 0 {
        return Err(Invalid::new(field, "must be at least 1"));
    }
    Ok(number)
}

pub(super) fn count_set(set: CountSet) -> pb::SetCountResponse {
    pb::SetCountResponse {
        set: set.set,
        count: set.count,
    }
}

pub(super) fn described(seen: &LatchDescription) -> pb::DescribeLatchResponse {
    pb::DescribeLatchResponse {
        name: seen.name.public().to_owned(),
        count: seen.count,
        remaining_ttl: seen.remaining.map(whole_millis),
        waiter_count: count(seen.waiter_count),
    }
}

pub(super) fn not_opened(ended: LatchNotOpened) -> pb::LatchNotOpened {
    pb::LatchNotOpened {
        reason: proto_wait_end(ended.why).into(),
        count: ended.count,
    }
}
