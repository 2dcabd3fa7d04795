//! Instructions that Redis and the coordinator execute for each operation, counted by callgrind.
//! `make cost` runs it.
//!
//! - [`counted`]: servers whose instructions are counted;
//! - [`coordinator`]: what an operation costs the coordinator;
//! - [`operations`]: what is counted of Redis;
//! - [`caller`]: who calls, by the coordinator's own library, so that keys, arguments and scripts
//!   are those that it sends.
//!
//! Instructions depend on the version of Redis and on its build, but hardly on the machine or its
//! load, so a change of a script shows in one run.

mod caller;
mod coordinator;
mod counted;
mod operations;

use std::io::{self, Write as _};

use futures::future::try_join_all;

use self::{
    caller::Stage,
    counted::Counted,
    operations::{ALL, Operation},
};

/// Callers at the same time, each with a lock of its own. They are few, because a Redis under
/// callgrind is slow, and its locks are to be as hot as those of a fast one.
const CALLERS: usize = 8;

/// Operations of a caller that count, after as many that do not.
const OPERATIONS: usize = 32;

/// Counts each operation and prints two tables.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mut out = io::stdout();
    writeln!(
        out,
        "| operation of the coordinator | thousand instructions |\n|---|---|"
    )?;
    coordinator::count(&mut out).await?;
    let redis = Counted::redis().await?;
    let stage = Stage::connect(&format!("redis://127.0.0.1:{}", redis.port())).await?;
    writeln!(
        out,
        "\n| operation | thousand instructions of Redis |\n|---|---|"
    )?;
    for (row, operation) in ALL.iter().enumerate() {
        let thousands = count(&redis, &stage, row, operation).await?;
        writeln!(out, "| {} | {thousands:.1} |", operation.what)?;
    }
    redis.end().await
}

/// Thousand instructions of one operation.
async fn count(
    redis: &Counted,
    stage: &Stage,
    row: usize,
    operation: &Operation,
) -> anyhow::Result<f64> {
    let mut callers: Vec<_> = (0..CALLERS)
        .map(|number| stage.caller(row, number))
        .collect();
    try_join_all(callers.iter_mut().map(|caller| operation.prepare(caller))).await?;
    let mut run = async || {
        let all = callers.iter_mut();
        try_join_all(all.map(|caller| operation.run(caller, OPERATIONS))).await
    };
    run().await?;
    redis.reset().await?;
    run().await?;
    let operations = u32::try_from(CALLERS * (OPERATIONS / operation.one_in))?;
    Ok(redis.instructions().await? / f64::from(operations) / 1000.0)
}
