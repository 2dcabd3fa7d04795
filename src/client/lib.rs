//! The Rust client of Lockkeeper, a lock service over gRPC.
#![doc = include_str!("README.md")]

mod address;
mod client;
mod clock;
mod connector;
mod credentials;
mod dial;
mod duration;
mod endpoints;
mod error;
mod first_answer;
mod follow;
mod free;
mod grpc_only;
mod guard;
mod holding;
mod link;
mod machine;
mod observer;
mod session;
mod task;
#[cfg(test)]
mod tests;
mod tls_sniff;
mod transport_error;
mod validity;
mod watch;

pub use self::{
    address::{Address, InvalidAddress},
    client::{Client, ClientBuilder},
    connector::{
        AdminClient, Connector, ElectionClient, LatchClient, LockClient, SemaphoreClient,
        Transport, short,
    },
    credentials::{Authorize, TlsFiles, Token},
    dial::{Dialled, Wire},
    error::{Error, status_of, why_lost},
    grpc_only::GrpcOnly,
    guard::{Guard, Permits},
    observer::{Observed, Observer},
    session::{
        Election, Latch, Leadership, LockRequest, LocksRequest, PermitsRequest, Semaphore, Session,
        SessionBuilder, SessionEvent, SessionEvents, SessionState,
    },
    transport_error::of_status as why_broken,
    validity::YieldRequest,
    watch::{LockEvent, LockWatch},
};
pub use lockkeeper_api::pb::{
    LockMode, LostReason, NotGrantedReason, Note, TransferRequest, TransferResponse,
};
