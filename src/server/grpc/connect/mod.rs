//! HTTP/JSON, by the rules of the Connect protocol (<https://connectrpc.com/docs/protocol>).
//!
//! There is no second API: a request is translated to gRPC, and its answer back. [`ConnectLayer`]
//! stands before all other layers and reads the head of a request; [`Translate`] stands
//! behind those that identify callers and limit bodies, and translates messages. Between the two,
//! a call is one of gRPC, with the same rights, limits, metrics and spans.
//!
//! Messages follow protobuf's JSON mapping, by the descriptors that reflection serves. For people
//! with curl there is one addition: a method with one request and a stream of answers also takes
//! `application/json`, and answers with a line of JSON for each message.
//!
//! The locking of Terraform's http backend takes the same way, by paths and bodies of its own
//! (`state_lock.rs`).

mod answer;
mod asked;
mod envelopes;
mod failure;
mod layer;
mod schema;
mod state_lock;
mod translation;

pub(super) use asked::Asked;
pub use layer::ConnectLayer;
pub use translation::Translate;
