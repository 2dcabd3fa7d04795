//! The configuration of each layer, from the settings.

use std::time::Duration;

use lockkeeper_access::Access;
use lockkeeper_coordinator::{Limits, SessionId, SessionSecrets};
use lockkeeper_facades::Facades;
use lockkeeper_store::{host::Replicas, script};
use rustls::pki_types::UnixTime;
use tracing::info;
use uuid::Uuid;

use crate::{
    admin,
    config::{ReplicaAcks, Settings},
    fleet::Fleet,
    grpc::{self, listen},
    hosts::AllowedHosts,
    pages::Samples,
    process::rlimit,
    sizing,
};

/// Spreads the polls of coordinators that were started together.
const POLL_JITTER: f64 = 0.2;

/// The coordinator's part of the settings.
pub fn coordinator_config(settings: &Settings) -> lockkeeper_coordinator::Config {
    let mut settings = settings.clone();
    // Those that follow the memory have been set, where it is known.
    sizing::set_limits(&mut settings, None);
    let Settings {
        store,
        session,
        limits,
        ..
    } = &settings;
    let secrets = if session.secret.is_empty() {
        info!("session.secret is not set: sessions can be resumed on this process only");
        vec![Uuid::new_v4().as_bytes().to_vec()]
    } else {
        session.secrets()
    };
    lockkeeper_coordinator::Config {
        limits: Limits {
            key_prefix: store.key_prefix.as_str().into(),
            name_bytes_max: limits.name_bytes_max,
            owner_bytes_max: limits.owner_bytes_max,
            request_id_bytes_max: limits.request_id_bytes_max,
            client_name_bytes_max: limits.client_name_bytes_max,
            lease_min: limits.lease_min,
            lease_max: limits.lease_max,
            waiters_per_lock_max: limits.waiters_per_lock_max,
            waiters_max: limits.waiters_max,
            waits_per_session_max: limits.waits_per_session_max,
            sessions_max: limits.sessions_max,
            grants_per_session_max: limits.grants_per_session_max,
            locks_per_request_max: limits.locks_per_request_max,
        },
        lease: session.lease,
        poll_interval: store.poll_interval,
        poll_jitter: POLL_JITTER,
        call_timeout: store.call_timeout,
        replica_acks: match store.replica_acks {
            ReplicaAcks::None => None,
            ReplicaAcks::AtLeast(at_least) => Some(Replicas {
                at_least,
                all: false,
            }),
            ReplicaAcks::All => Some(Replicas {
                at_least: 1,
                all: true,
            }),
        },
        metric_prefixes: settings.admin.metric_prefixes.clone(),
        scripts: script::Config {
            idle_token_retention: store.idle_token_retention,
            request_retention: store.request_retention,
            fair_waiter_timeout: store.fair_waiter_timeout,
            writer_hold_back: store.writer_hold_back,
            holders_per_lock_max: limits.holders_per_lock_max,
            permits_per_name_max: limits.permits_per_name_max,
            adopts_counters: store.adopt_redisson_counters,
            native_commands: store.native_commands,
        },
        resume_max: session.resume_max,
        session_secrets: SessionSecrets::new(secrets),
        unix_seconds: || UnixTime::now().as_secs(),
        session_id: SessionId::random,
    }
}

pub(crate) fn admin_config(settings: &Settings, fleet: &Fleet, samples: &Samples) -> admin::Config {
    let admin = &settings.admin;
    admin::Config {
        allow_force_release: admin.allow_force_release,
        authenticates_metrics: admin.authenticate_metrics,
        hosts: AllowedHosts::new(&admin.allowed_hosts, admin.listen.0),
        fleet: fleet.clone(),
        samples: samples.clone(),
    }
}

pub(crate) fn grpc_config(settings: &Settings, fleet: &Fleet, samples: &Samples) -> grpc::Config {
    let Settings { server, limits, .. } = settings;
    let hosts = AllowedHosts::new(&server.allowed_hosts, server.listen.0);
    let terraform = settings.facades.terraform;
    grpc::Config {
        keepalive_interval: server.keepalive_interval,
        keepalive_timeout: server.keepalive_timeout,
        connection_age_max: connection_age_max(settings),
        grpc_web: server.grpc_web,
        http_json: server.http_json,
        // In public the names are not known, unless they were set. Who needs gRPC-Web has pages.
        allowed_hosts: Some(hosts).filter(|hosts| {
            if server.grpc_web {
                !hosts.is_unset_in_public()
            } else {
                server.http_json || terraform
            }
        }),
        message_bytes_max: limits.message_bytes_max,
        unfinished_bytes_max: limits.unfinished_bytes_max,
        connection_streams_max: limits.connection_streams_max,
        operations_per_session_max: limits.operations_per_session_max,
        header_list_bytes_max: limits.header_list_bytes_max,
        fleet: fleet.clone(),
        samples: samples.clone(),
        facades: Facades {
            dapr: settings.facades.dapr,
            etcd: settings.facades.etcd,
            terraform: terraform.then_some(settings.facades.terraform_lease),
        },
    }
}

pub(crate) fn listen_limits(settings: &Settings, access: &Access) -> listen::Limits {
    let unauthenticated_max = settings.limits.unauthenticated_connections_max;
    listen::Limits {
        connections_max: rlimit::connections_max(settings.server.connections_max),
        per_peer_max: settings.limits.connections_per_peer_max,
        unauthenticated_max: access.asks().then_some(unauthenticated_max),
        handshake_timeout: settings.server.handshake_timeout,
        connection_age_max: connection_age_max(settings),
        takes_http1: settings.server.grpc_web
            || settings.server.http_json
            || settings.facades.terraform,
    }
}

fn connection_age_max(settings: &Settings) -> Option<Duration> {
    Some(settings.server.connection_age_max).filter(|age| !age.is_zero())
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
