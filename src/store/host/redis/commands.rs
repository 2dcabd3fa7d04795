//! What needs no script, on one connection.

use std::time::Duration;

use deadpool_redis::redis::Value;
use tokio::time::Instant;

use super::{link::Live, reply, resp::put_behind};
use crate::host::{Commands, HostError, Numbers};

/// What a server answers to a hash that another version has saved.
const OTHER_FORM: [&str; 2] = ["DUMP payload version", "Bad data format"];

// The first words of the commands, as they are written.
const RESTORE: &[u8] = b"*4\r\n$7\r\nRESTORE\r\n";
const INCRBY: &[u8] = b"*3\r\n$6\r\nINCRBY\r\n";
const HEXISTS: &[u8] = b"*3\r\n$7\r\nHEXISTS\r\n";
const HDEL: &[u8] = b"*3\r\n$4\r\nHDEL\r\n";
const PUBLISH: &[u8] = b"*3\r\n$7\r\nPUBLISH\r\n";

/// Runs commands. A server that does not allow one of them is asked no more on this connection.
pub(super) async fn run(
    live: &Live,
    commands: &Commands<'_>,
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
                let mut digits = itoa::Buffer::new();
                put_behind(out, INCRBY, [counter, digits.format(*by).as_bytes()]);
                put_behind(out, HEXISTS, [key, field]);
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
            let both = live.call_in_transaction(2, deadline, |out| {
                put_behind(out, HDEL, [key, field]);
                put_behind(out, PUBLISH, [channel, message.as_bytes()]);
            });
            let answers = both.await?;
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
    key: &[u8],
    field: &[u8],
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
            let mut digits = itoa::Buffer::new();
            let millis = digits.format(millis).as_bytes();
            put_behind(out, RESTORE, [key, millis, &saved]);
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

/// What became of `HDEL` and `PUBLISH`.
fn removed(answers: &[Value]) -> Result<Numbers, HostError> {
    match answers {
        [removed, _] => Ok([number(removed)?, 0]),
        _ => Err(unexpected()),
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

#[cfg(test)]
mod tests {
    use super::{super::resp::put, *};

    #[test]
    fn commands_are_written_as_all_others_are() {
        fn check<const N: usize, const M: usize>(
            first: &[u8],
            behind: [&[u8]; N],
            all: [&[u8]; M],
        ) {
            let [mut written, mut expected] = [Vec::new(), Vec::new()];
            put_behind(&mut written, first, behind);
            put(&mut expected, all);
            assert_eq!(
                written.escape_ascii().to_string(),
                expected.escape_ascii().to_string()
            );
        }
        check(RESTORE, [b"a", b"1", b"b"], [b"RESTORE", b"a", b"1", b"b"]);
        check(INCRBY, [b"a", b"1"], [b"INCRBY", b"a", b"1"]);
        check(HEXISTS, [b"a", b"b"], [b"HEXISTS", b"a", b"b"]);
        check(PUBLISH, [b"a", b"b"], [b"PUBLISH", b"a", b"b"]);
        check(HDEL, [b"a", b"b"], [b"HDEL", b"a", b"b"]);
    }
}
