//! Behaviour, in one process and under a paused clock. In reading order.

mod support;

mod reentrant;
mod waiting;
mod watchdog;
mod session;
mod idempotency;
mod bad_input;
mod drain;
