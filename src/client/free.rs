//! Waiting until a lock is free.

use std::time::Duration;

use lockkeeper_api::pb::{
    AwaitFreeRequest, NotGranted, NotGrantedReason, await_free_response::Event,
    lock_service_client::LockServiceClient,
};
use tokio::time::Instant;

use crate::{
    Error,
    duration::to_proto,
    endpoints::{Endpoints, Rounds},
    follow::pause,
};

/// See [`Client::await_free`](crate::Client::await_free).
pub(crate) async fn await_free(
    endpoints: Endpoints,
    name: String,
    limit: Option<Duration>,
) -> Result<(), Error> {
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut rounds = Rounds::new(endpoints);
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let request = AwaitFreeRequest {
            name: name.clone(),
            wait_timeout: to_proto(left, "time to wait")?,
            ..AwaitFreeRequest::default()
        };
        let failed = match attempt(&mut rounds, request).await {
            Ok(Some(ended)) => return ended.map_err(|ended| not_free(name, ended)),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        let pauses = rounds.on_failed(failed.clone())?;
        let is_past = until.is_some_and(|until| Instant::now() >= until);
        // Before there was any answer, the next endpoint may still tell whether the lock is free.
        if is_past && (pauses || rounds.has_begun) {
            return Err(failed.unwrap_or_else(|| not_free(name, timed_out())));
        }
        if pauses {
            pause().await;
        }
    }
}

/// `None` at the end of a stream without an answer.
async fn attempt(
    rounds: &mut Rounds,
    request: AwaitFreeRequest,
) -> Result<Option<Result<(), NotGranted>>, Error> {
    let mut client = LockServiceClient::new(rounds.connect().await?);
    let mut events = client.await_free(request).await?.into_inner();
    while let Some(answer) = events.message().await? {
        rounds.on_answer();
        match answer.event {
            Some(Event::Free(_)) => return Ok(Some(Ok(()))),
            Some(Event::NotFree(ended)) => return Ok(Some(Err(ended))),
            Some(Event::Waiting(_)) | None => {}
        }
    }
    Ok(None)
}

fn timed_out() -> NotGranted {
    NotGranted {
        reason: NotGrantedReason::WaitTimeout.into(),
        ..NotGranted::default()
    }
}

fn not_free(name: String, ended: NotGranted) -> Error {
    Error::NotGranted {
        name,
        reason: ended.reason(),
        holder_remaining_lease: ended
            .holder_remaining_lease
            .and_then(|left| left.try_into().ok()),
        holder_note: ended.holder_note.map(Box::new),
        available: None,
    }
}
