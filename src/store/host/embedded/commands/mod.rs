//! The commands: those that the scripts use, and what is near them. The table is the whole of what
//! the store can do.

#![expect(
    clippy::unnecessary_wraps,
    reason = "the table holds functions of one type"
)]

mod command;
mod counters;
mod hashes;
mod keys;
mod lists;
mod ranges;
mod run;
mod sorted_sets;
mod table;
mod together;

pub(super) use run::{run, run_checked, run_in_script};
pub(super) use table::{at, names};
pub(super) use together::run_together;

#[cfg(test)]
mod tests;
