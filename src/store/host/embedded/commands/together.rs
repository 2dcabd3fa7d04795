//! Commands that a client sends together. Nothing comes between them here.

use super::{
    super::{
        engine::Engine,
        reply::{Refusal, Reply},
    },
    run::run,
};
use crate::host::{Commands, HostError, Numbers};

/// Runs them with the outcome that Redis' own commands have.
pub(in super::super) fn run_together(
    engine: &mut Engine,
    commands: &Commands<'_>,
) -> Result<Numbers, HostError> {
    let numbers = match commands {
        Commands::Create { key, field, ttl } => {
            let ttl = ttl.as_millis().to_string();
            if number(engine, &[b"EXISTS", key])? == 1 {
                [0, 0]
            } else {
                number(engine, &[b"HSET", key, field, b"1"])?;
                [number(engine, &[b"PEXPIRE", key, ttl.as_bytes()])?, 0]
            }
        }
        Commands::AddAndLook {
            counter,
            by,
            key,
            field,
        } => {
            let by = by.to_string();
            let sum = number(engine, &[b"INCRBY", counter, by.as_bytes()])?;
            [sum, number(engine, &[b"HEXISTS", key, field])?]
        }
        Commands::RemoveAndPublish {
            key,
            field,
            channel,
            message,
        } => {
            let removed = number(engine, &[b"HDEL", key, field])?;
            number(engine, &[b"PUBLISH", channel, message.as_bytes()])?;
            [removed, 0]
        }
    };
    Ok(numbers)
}

fn number(engine: &mut Engine, line: &[&[u8]]) -> Result<i64, Refusal> {
    match run(engine, line)? {
        Reply::Int(number) => Ok(number),
        _ => Err(Refusal::new("ERR the answer is no number")),
    }
}
