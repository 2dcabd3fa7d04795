//! What needs no script, on one connection.

use std::time::Duration;

use bytes::Bytes;
use deadpool_redis::redis::{ServerError, Value};
use tokio::time::Instant;

use super::{link::Live, reply, resp::put};
use crate::host::{Commands, HostError, Numbers};

/// What a server answers to a hash that another version has saved.
const OTHER_FORM: [&str; 2] = ["DUMP payload version", "Bad data format"];

/// Runs commands. A server that does not allow one of them is asked no more on this connection.
pub(super) async fn run(
    live: &Live,
    commands: &Commands,
    deadline: Instant,
) -> Result<Numbers, HostError> {
    let answer = match commands {
        Commands::Create { key, field, ttl } => create(live, key, field, *ttl, deadline).await,
        Commands::AddAndLook {
            counter,
            by,
            key,
            field,
        } => {
            let both = live.call_all(2, deadline, |out| {
                put(out, [b"INCRBY", counter, by.to_string().as_bytes()]);
                put(out, [b"HEXISTS", key, field]);
            });
            let answers = both.await?;
            added(&answers)
        }
        Commands::RemoveAndPublish {
            key,
            field,
            channel,
            message,
        } => {
            let step = live.call_all(4, deadline, |out| {
                put(out, [b"MULTI"]);
                put(out, [b"HDEL", key, field]);
                put(out, [b"PUBLISH", channel, message.as_bytes()]);
                put(out, [b"EXEC"]);
            });
            let answers = step.await?;
            removed(&answers)
        }
    };
    if let Err(HostError::Rejected { code, message }) = &answer {
        // Whatever is wrong with `RESTORE`, it will be the next time.
        let is_for_good = matches!(commands, Commands::Create { .. })
            || code == "NOPERM"
            || message.starts_with("unknown command");
        if is_for_good && live.dialect.refuse() {
            tracing::warn!(
                code,
                message,
                "the store refuses a command: scripts are used instead"
            );
        }
    }
    answer
}

async fn create(
    live: &Live,
    key: &Bytes,
    field: &Bytes,
    ttl: Duration,
    deadline: Instant,
) -> Result<Numbers, HostError> {
    let mut next = live.dialect.get();
    while let Some(form) = next {
        let millis = ttl.as_millis();
        // Without a time to live, `RESTORE` would make a key that never ends.
        let Some(saved) = form.hash_of(field).filter(|_| millis > 0) else {
            return Ok([0, 0]);
        };
        let restore = live.call(deadline, |out| {
            put(
                out,
                [b"RESTORE", key, millis.to_string().as_bytes(), &saved],
            );
        });
        match restore.await {
            Ok(_) => return Ok([1, 0]),
            Err(HostError::Rejected { code, .. }) if code == "BUSYKEY" => return Ok([0, 0]),
            Err(HostError::Rejected { message, .. })
                if OTHER_FORM.iter().any(|it| message.starts_with(it)) =>
            {
                next = live.dialect.forget(form);
            }
            Err(error) => return Err(error),
        }
    }
    Err(HostError::Rejected {
        code: "UNSUPPORTED".to_owned(),
        message: "no form of a saved hash is known to the server".to_owned(),
    })
}

/// What became of `INCRBY` and `HEXISTS`.
fn added(answers: &[Value]) -> Result<Numbers, HostError> {
    match answers {
        [sum, has] => Ok([number(sum)?, number(has)?]),
        _ => Err(unexpected()),
    }
}

/// What became of `MULTI`, `HDEL`, `PUBLISH`, `EXEC`.
fn removed(answers: &[Value]) -> Result<Numbers, HostError> {
    let [begun, removed, published, ended] = answers else {
        return Err(unexpected());
    };
    match (begun, ended) {
        // Without a transaction they were carried out one after the other.
        (Value::ServerError(_), _) => Ok([number(removed)?, 0]),
        (_, Value::Array(done)) => match done.as_slice() {
            [removed, _] => Ok([number(removed)?, 0]),
            _ => Err(unexpected()),
        },
        (_, Value::ServerError(aborted)) => {
            let mut reasons = [removed, published].into_iter().filter_map(error_of);
            Err(reply::refusal(reasons.next().unwrap_or(aborted)))
        }
        _ => Err(unexpected()),
    }
}

fn error_of(answer: &Value) -> Option<&ServerError> {
    match answer {
        Value::ServerError(error) => Some(error),
        _ => None,
    }
}

fn number(answer: &Value) -> Result<i64, HostError> {
    match answer {
        Value::Int(number) => Ok(*number),
        Value::ServerError(error) => Err(reply::refusal(error)),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> HostError {
    HostError::OutcomeUnknown("the answer is of an unexpected kind".into())
}
