//! `LockService`: each RPC is converted, submitted to the coordinator as an operation, and answered.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming, metadata::MetadataMap};

use super::{
    Config,
    answers::{self, Answers},
    convert::{self, Requests},
    layer::BodyFate,
    multi,
    outbound::Outbound,
    pb, session,
    status::{status, unexpected_answer},
};
use crate::coordinator::{Answer, Coordinator, Error, Operation, Reply};

/// Answers that a waiting `Acquire` may have on the way: one of the wait and the last.
const ACQUIRE_ANSWERS_QUEUED: usize = 2;

/// A wait ends this much before the RPC's deadline, or by this part of it if that is less, so that the caller gets a typed answer. (tonic enforces no
/// deadline on a stream.)
const DEADLINE_MARGIN: Duration = Duration::from_millis(50);
const DEADLINE_MARGIN_DIVISOR: u32 = 5;

/// The service.
#[derive(Clone, Debug)]
pub(super) struct LockService {
    coordinator: Coordinator,
    config: Arc<Config>,
}

// === impl LockService ===

impl LockService {
    pub(super) fn new(coordinator: Coordinator, config: Arc<Config>) -> Self {
        Self {
            coordinator,
            config,
        }
    }

    fn requests(&self) -> Requests<'_> {
        Requests {
            coordinator: &self.coordinator,
            session: None,
        }
    }

    fn submit(
        &self,
        operation: Result<Operation, Error>,
        queued: usize,
    ) -> Result<mpsc::Receiver<(u64, Answer)>, Status> {
        let operation = operation.map_err(|error| status(&error))?;
        let (to, answers) = mpsc::channel(queued);
        self.coordinator.submit(
            operation,
            Reply {
                op_id: 0,
                to,
                cancel: None,
                slot: None,
            },
        );
        Ok(answers)
    }

    /// Runs an operation that has one answer. If the caller goes away meanwhile, what it got is given back.
    async fn run<T>(
        &self,
        operation: Result<Operation, Error>,
        convert: impl FnOnce(Answer) -> Result<T, Status>,
    ) -> Result<Response<T>, Status> {
        let mut answers = self.submit(operation, 1)?;
        match answers.recv().await {
            Some((_, Answer::Failed(error))) => Err(status(&error)),
            Some((_, answer)) => convert(answer).map(Response::new),
            None => Err(status(&Error::Draining)),
        }
    }
}

#[tonic::async_trait]
impl pb::lock_service_server::LockService for LockService {
    type SessionStream = Outbound;
    type AcquireStream = Answers<pb::AcquireResponse>;
    type AcquireAllStream = Answers<pb::AcquireAllResponse>;

    async fn session(
        &self,
        request: Request<Streaming<pb::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let fate = request
            .extensions()
            .get::<BodyFate>()
            .cloned()
            .unwrap_or_default();
        let frames = request.into_inner();
        Ok(Response::new(session::serve(
            self.coordinator.clone(),
            &self.config,
            frames,
            fate,
        )))
    }

    async fn acquire(
        &self,
        request: Request<pb::AcquireRequest>,
    ) -> Result<Response<Self::AcquireStream>, Status> {
        let deadline = deadline(request.metadata());
        let operation = self
            .requests()
            .acquire(request.into_inner())
            .map(|mut acquire| {
                acquire.wait = shorter(acquire.wait, deadline);
                Operation::Acquire(acquire)
            });
        let answers = self.submit(operation, ACQUIRE_ANSWERS_QUEUED)?;
        Ok(Response::new(Answers::new(answers, answers::acquire)))
    }

    async fn try_acquire(
        &self,
        request: Request<pb::TryAcquireRequest>,
    ) -> Result<Response<pb::TryAcquireResponse>, Status> {
        let operation = self.requests().try_acquire(request.get_ref());
        self.run(
            operation.map(Operation::TryAcquire),
            |answer| match answer {
                Answer::Tried(tried) => convert::tried(tried),
                _ => Err(unexpected_answer()),
            },
        )
        .await
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseRequest>,
    ) -> Result<Response<pb::ReleaseResponse>, Status> {
        let operation = self.requests().release(request.get_ref());
        self.run(operation.map(Operation::Release), |answer| match answer {
            Answer::Released(hold_count) => Ok(convert::released(hold_count)),
            _ => Err(unexpected_answer()),
        })
        .await
    }

    async fn renew(
        &self,
        request: Request<pb::RenewRequest>,
    ) -> Result<Response<pb::RenewResponse>, Status> {
        let operation = self.requests().renew(request.get_ref());
        self.run(operation.map(Operation::Renew), |answer| match answer {
            Answer::Renewed(grant) => Ok(pb::RenewResponse {
                grant: Some(convert::grant(&grant)),
            }),
            _ => Err(unexpected_answer()),
        })
        .await
    }

    async fn acquire_all(
        &self,
        request: Request<pb::AcquireAllRequest>,
    ) -> Result<Response<Self::AcquireAllStream>, Status> {
        let deadline = deadline(request.metadata());
        let operation = self
            .requests()
            .acquire_all(request.into_inner())
            .map(|mut acquire| {
                acquire.wait = shorter(acquire.wait, deadline);
                Operation::AcquireAll(acquire)
            });
        let answers = self.submit(operation, ACQUIRE_ANSWERS_QUEUED)?;
        Ok(Response::new(Answers::new(answers, answers::acquire_all)))
    }

    async fn try_acquire_all(
        &self,
        request: Request<pb::TryAcquireAllRequest>,
    ) -> Result<Response<pb::TryAcquireAllResponse>, Status> {
        let operation = self.requests().try_acquire_all(request.get_ref());
        self.run(
            operation.map(Operation::TryAcquireAll),
            |answer| match answer {
                Answer::TriedAll(tried) => multi::tried(tried),
                _ => Err(unexpected_answer()),
            },
        )
        .await
    }

    async fn release_all(
        &self,
        request: Request<pb::ReleaseAllRequest>,
    ) -> Result<Response<pb::ReleaseAllResponse>, Status> {
        let operation = self.requests().release_all(request.get_ref());
        self.run(
            operation.map(Operation::ReleaseAll),
            |answer| match answer {
                Answer::ReleasedAll(locks) => Ok(multi::released(locks)),
                _ => Err(unexpected_answer()),
            },
        )
        .await
    }

    async fn describe(
        &self,
        request: Request<pb::DescribeRequest>,
    ) -> Result<Response<pb::DescribeResponse>, Status> {
        let operation = self.requests().describe(request.get_ref());
        self.run(operation, |answer| match answer {
            Answer::Described(seen) => Ok(convert::described(seen)),
            _ => Err(unexpected_answer()),
        })
        .await
    }

    async fn check_token(
        &self,
        request: Request<pb::CheckTokenRequest>,
    ) -> Result<Response<pb::CheckTokenResponse>, Status> {
        let operation = self.requests().check_token(request.get_ref());
        self.run(operation, |answer| match answer {
            Answer::TokenChecked(checked) => Ok(convert::token_checked(checked)),
            _ => Err(unexpected_answer()),
        })
        .await
    }
}

/// A wait ends at the first of two moments, if any.
fn shorter(wait: Option<Duration>, deadline: Option<Duration>) -> Option<Duration> {
    match (wait, deadline) {
        (Some(wait), Some(deadline)) => Some(wait.min(deadline)),
        (wait, deadline) => wait.or(deadline),
    }
}

/// How long a wait may take under the `grpc-timeout` of the call: a number of at most 8 digits and a unit.
fn deadline(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    let timeout = match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    };
    Some(timeout.saturating_sub(DEADLINE_MARGIN.min(timeout / DEADLINE_MARGIN_DIVISOR)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_read_with_a_margin() {
        let read = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            deadline(&metadata)
        };
        assert_eq!(read("2S"), Some(Duration::from_millis(1950)));
        assert_eq!(read("100m"), Some(Duration::from_millis(80)));
        assert_eq!(read("1H"), Some(Duration::from_millis(3_599_950)));
        for bad in ["", "S", "12", "-1S", "123456789S", "1x"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
