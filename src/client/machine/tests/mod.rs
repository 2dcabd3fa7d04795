//! Tests of the machine: every row of the tables of `clients/session-machine.md`.

#![expect(
    clippy::result_large_err,
    clippy::unchecked_time_subtraction,
    reason = "tests take effects apart, and know their times"
)]

mod edges;
mod grants;
mod kinds;
mod operations;
mod page;
mod story;
mod stream;

/// The rows of one table, and the tests that drive them.
macro_rules! rows {
    ($($row:literal => $($test:ident),+;)*) => {
        pub(super) const ROWS: &[&str] = &[$($row),*];

        mod row {
            $($(#[test]
            fn $test() {
                super::$test();
            })+)*
        }
    };
}
use rows;
