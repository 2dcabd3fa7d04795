//! The machine, on a clock that only tests move.

mod running;
mod story;
mod waiting;
