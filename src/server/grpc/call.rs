//! Shared by the services: converts a request to an operation, and its answers to those of the RPC.
//! The macro [`service`] makes a service of a table of its RPCs.

use std::time::Duration;

use futures::{
    FutureExt as _, Stream, StreamExt as _,
    stream::{self, BoxStream},
};
use lockkeeper_access::{Access, Account, Right};
use lockkeeper_coordinator::{AnswersTo, Coordinator, Error, LockName, Operation, Reply, mailbox};
use lockkeeper_facades::Door;
use tonic::{Response, Status, metadata::MetadataMap};

use super::{
    Metrics,
    answers::{Answers, Convert},
    convert::Requests,
    status::{no_right, status},
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

/// Implements a service. An RPC that does not wait has the name of its method of [`Requests`] and
/// of the coordinator; an RPC that may wait has the name of its method of [`Requests`]. If the
/// caller disconnects meanwhile, its grants are released.
macro_rules! service {
    (
        $trait:path, $service:ty, |$calls:ident, $account:ident|
        own { $($own:tt)* }
        asks { $($ask:ident($Ask:ident) -> $Answer:ident, |$answer:pat_param| $write:expr;)* }
        waits { $(
            $wait:ident($Wait:ident) -> $Stream:ident($Event:ident), $Operation:ident,
            $events:ident { $($said:pat => $event:expr,)* };
        )* }
    ) => {
        #[tonic::async_trait]
        impl $trait for $service {
            $($own)*

            $(async fn $ask(
                &self,
                request: tonic::Request<pb::$Ask>,
            ) -> Result<tonic::Response<pb::$Answer>, tonic::Status> {
                let $calls = &self.calls;
                let $account = auth::account(request.extensions());
                let asked = $calls.requests(&$account).$ask(request.get_ref());
                let asked = asked.map_err(|error| status(&error))?;
                let ended = $calls.coordinator.$ask(asked).await;
                let written = ended.and_then(|$answer| Ok($write));
                written.map(tonic::Response::new).map_err(|error| status(&error))
            })*

            $(type $Stream = Answers<pb::$Event>;

            async fn $wait(
                &self,
                request: tonic::Request<pb::$Wait>,
            ) -> Result<tonic::Response<Self::$Stream>, tonic::Status> {
                use pb::$events::Event;

                let account = auth::account(request.extensions());
                let asked = self.calls.requests(&account).$wait(request.get_ref());
                let mut asked = asked.map_err(|error| status(&error))?;
                asked.wait = within(asked.wait, request.metadata());
                let operation = Operation::$Operation(asked);
                Ok(self.calls.wait(account, operation, |answer| {
                    let event = Some(match answer {
                        $($said => $event,)*
                        Answer::Failed(error) => return Err(error),
                        _ => return Ok(None),
                    });
                    Ok(Some(pb::$Event { event }))
                }))
            })*
        }
    };
}
pub(super) use service;

// === impl Calls ===

impl Calls {
    pub(super) fn requests<'a>(&'a self, account: &'a Account) -> Requests<'a> {
        Requests {
            coordinator: &self.coordinator,
            access: &self.access,
            account,
            own: None,
        }
    }

    /// What the facades are given.
    pub(super) fn door(&self) -> Door {
        Door {
            coordinator: self.coordinator.clone(),
            access: self.access.clone(),
            status,
            no_right,
        }
    }

    pub(super) fn viewer(&self, account: &Account) -> Viewer {
        Viewer::new(&self.coordinator, &self.access, account.identity())
    }

    /// These events, until the first error, and for as long as the caller may describe the name.
    pub(super) fn while_described<T: Send + 'static>(
        &self,
        account: &Account,
        name: LockName,
        events: impl Stream<Item = Result<T, Error>> + Send + 'static,
    ) -> BoxStream<'static, Result<T, Status>> {
        let (calls, account) = (self.clone(), account.clone());
        let refused = async move {
            let may = || {
                let may = calls.requests(&account).may(Right::Describe, &name);
                may.map(|()| None)
            };
            calls.access.until_refused(may).await
        };
        let begun = Some((events.boxed(), refused.boxed()));
        let events = stream::unfold(begun, |state| async {
            let (mut events, mut refused) = state?;
            let next = tokio::select! {
                biased;
                error = &mut refused => Err(error),
                next = events.next() => next?,
            };
            let state = next.is_ok().then_some((events, refused));
            Some((next, state))
        });
        events
            .map(|event| event.map_err(|error| status(&error)))
            .boxed()
    }

    /// Runs an operation that may wait.
    pub(super) fn wait<T>(
        &self,
        account: Account,
        operation: Operation,
        convert: Convert<T>,
    ) -> Response<Answers<T>> {
        let (to, answers) = mailbox();
        let viewer = self.viewer(&account);
        let reply = Reply {
            op_id: 0,
            to: AnswersTo::Mailbox(to),
            cancel: None,
            slot: None,
            account,
        };
        self.coordinator.submit(operation, reply);
        Response::new(Answers::new(answers, convert, viewer))
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
