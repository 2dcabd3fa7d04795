//! What a running coordinator says of itself: metrics, traces and logs.

mod collector;
pub(crate) mod http;
mod logs;
mod metrics;
mod ready;
mod traces;
