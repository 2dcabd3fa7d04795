//! Nobody can starve a neighbour: one row per attack, while another identity works beside it. The
//! rows are those of `docs/robustness/abuse.md`.
//!
//! `make abuse` runs them against the release in a memory control group of 512 MiB; `make ci` in
//! the short form (`ABUSE_SHORT=1`), which takes any binary. `UPDATE_DOCS=1` writes the table.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint does not take for tests"
)]

use lockkeeper_testkit::{
    calls, client, coordinator, frames, heartbeat, prelude, redis_server, time,
};

mod attacks;
mod cgroup;
mod form;
mod judgement;
mod row;
mod rows;
mod scene;
mod table;
mod target;
mod victim;

use libtest_mimic::{Arguments, Trial};

use self::{form::Form, rows::ROWS, table::Table};

fn main() {
    let mut arguments = Arguments::from_args();
    // One attack at a time.
    arguments.test_threads = Some(1);
    let form = Form::of_environment();
    let table = Table::default();
    let rows = ROWS.iter().map(|row| {
        let table = table.clone();
        Trial::test(row.name, move || table.record(row, row.run(form)))
    });
    let documented = Trial::test("every_row_is_documented", table::every_row_is_documented);
    let trials = rows.chain([documented]).collect();
    if !arguments.list {
        time::say(&form.to_string());
        heartbeat::begin();
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        table.print(form);
    }
    conclusion.exit();
}
