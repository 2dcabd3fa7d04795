//! What a history says about the promises: the rules that simulated and real runs share, and the
//! judgement of real ones. Nothing here knows which fault there was: what a run may show is judged
//! elsewhere.

mod findings;
mod hold;
mod rules;
mod tests;

pub use findings::{Bounds, Findings, NOTICE_MAX, check};
pub use rules::{Grant, Interval, overlaps, shrunk, twins};
