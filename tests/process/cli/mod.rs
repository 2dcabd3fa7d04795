//! The command line against a coordinator that says what the test wants.

mod calls;
mod contexts;
mod listed;
mod messages;
mod run;
mod tool;

pub(crate) use tool::eventually;
