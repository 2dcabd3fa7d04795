//! A coordinator that says what a test wants, on a port of its own and on threads of its own.

mod calls;
mod coordinator;

pub(crate) use coordinator::{Fake, TOKEN};
