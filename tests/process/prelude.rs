//! What most tests with real processes name.

pub(crate) use std::{sync::Arc, time::Duration};

pub(crate) use futures::future::join_all;
pub(crate) use lockkeeper_api::pb::{
    self, LockMode, LostReason, session_request::Request, session_response::Response,
};
pub(crate) use lockkeeper_base::tasks::spawn_detached;
pub(crate) use lockkeeper_testkit::prelude::*;
pub(crate) use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
pub(crate) use tempfile::TempDir;
pub(crate) use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::Child,
    time::{Instant, timeout},
};
pub(crate) use tonic::Code;

pub(crate) use crate::{
    client::{
        Client, Session, acquire_request, expect_status, proto, reason, refusal, std_duration,
        try_request,
    },
    coordinator::{Coordinator, Settings},
    counters::{Latch, Semaphore},
    redis_server::{RedisServer, eventually},
    sentinels::Sentinels,
    steps::{
        PROMPT, between, expect_no_trace, expect_serving, judged_by_time, lockkeeper,
        lost_after_risk, measured, millis, one_coordinator, open_with_lease, released_to, secs,
        settings_on, since, timed, timed_wait, two_coordinators, until_waiting,
    },
    tcp_proxy::TcpProxy,
};
