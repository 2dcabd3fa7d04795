//! What most tests of behaviour name.

pub(crate) use std::{sync::Arc, time::Duration};

pub(crate) use futures::future::join_all;
pub(crate) use lockkeeper_api::pb::{
    self, LockMode, LostReason, session_request::Request, session_response::Response,
};
pub(crate) use lockkeeper_store::{
    host::{HostError, Value},
    script::keys,
};
pub(crate) use lockkeeper_testkit::prelude::*;
pub(crate) use tokio::time::Instant;
pub(crate) use tonic::{Code, Status};

pub(crate) use super::{
    Faults, Options, World,
    client::{
        Client, Session, acquire_request, expect_refused, expect_status, proto, refusal,
        std_duration, try_request,
    },
    counters::{Latch, Semaphore},
    eventually, expect, millis, reason, secs,
};
