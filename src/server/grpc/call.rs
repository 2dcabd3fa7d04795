//! Shared by the services: converts a request to an operation, and its answers to those of the RPC.

use std::time::Duration;

use lockkeeper_access::{Access, Account};
use lockkeeper_coordinator::{Answer, AnswersTo, Coordinator, Error, Operation, Reply, mailbox};
use tonic::{Response, Status, metadata::MetadataMap};

use super::{
    Metrics,
    answers::{Answers, Said},
    convert::Requests,
    status::status,
    viewer::Viewer,
};

/// A wait ends this long before the RPC's deadline, or by this fraction of it if that is shorter.
/// The caller then gets a typed answer. (tonic enforces no deadline on a stream.)
const DEADLINE_MARGIN: Duration = Duration::from_millis(50);
const DEADLINE_MARGIN_DIVISOR: u32 = 5;

/// The calls of one service.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    pub(super) coordinator: Coordinator,
    pub(super) access: Access,
    pub(super) metrics: Metrics,
}

// === impl Calls ===

impl Calls {
    pub(super) fn requests<'a>(&'a self, account: &'a Account) -> Requests<'a> {
        Requests {
            coordinator: &self.coordinator,
            access: &self.access,
            account,
            session: None,
        }
    }

    pub(super) fn viewer(&self, account: &Account) -> Viewer {
        Viewer::new(&self.coordinator, &self.access, account.identity())
    }

    /// Runs an operation that has one answer. If the caller disconnects meanwhile, its grants are
    /// released.
    pub(super) async fn run<T>(
        &self,
        operation: Result<Operation, Error>,
        convert: impl FnOnce(Answer) -> Result<T, Status>,
    ) -> Result<Response<T>, Status> {
        let operation = operation.map_err(|error| status(&error))?;
        match self.coordinator.ask(operation).await {
            Answer::Failed(error) => Err(status(&error)),
            answer => convert(answer).map(Response::new),
        }
    }

    /// Runs an operation that may wait.
    pub(super) fn wait<T>(
        &self,
        account: Account,
        operation: Result<Operation, Error>,
        convert: fn(Answer) -> Said<T>,
    ) -> Result<Response<Answers<T>>, Status> {
        let operation = operation.map_err(|error| status(&error))?;
        let (to, answers) = mailbox();
        let reply = Reply {
            op_id: 0,
            to: AnswersTo::Mailbox(to),
            cancel: None,
            slot: None,
            account,
        };
        self.coordinator.submit(operation, reply);
        Ok(Response::new(Answers::new(answers, convert)))
    }
}

/// The shorter of the request's wait and the RPC's deadline.
pub(super) fn within(wait: Option<Duration>, metadata: &MetadataMap) -> Option<Duration> {
    match (wait, deadline(metadata)) {
        (Some(wait), Some(deadline)) => Some(wait.min(deadline)),
        (wait, deadline) => wait.or(deadline),
    }
}

/// The longest wait under the `grpc-timeout` of the call: a number of at most 8 digits and a unit.
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
