use super::*;
use crate::{
    config::tests::{Given, given},
    security,
};

/// A setting, a value that no other has, and how the layer's configuration shows it. Fields of
/// several layers may have one name.
type Row = (&'static str, &'static str, &'static str);

fn expect(given: Given, rows: &[Row], configured: impl Fn(&Settings) -> String) {
    let set = rows.iter();
    let settings = set.fold(given, |given, (key, value, _)| given.flag(key, value));
    let shown = configured(&settings.settings());
    for (key, value, field) in rows {
        let (name, value) = field.split_once('=').unwrap_or((field, value));
        let expected = format!("{name}: {value}");
        let is_shown = shown.match_indices(&expected).any(|(at, _)| {
            let [before, after] = [&shown[..at], &shown[at + expected.len()..]];
            !before.ends_with(|it: char| it.is_alphanumeric() || it == '_')
                && after.starts_with([',', ' ', ')'])
        });
        assert!(is_shown, "{key}: no `{expected}` in {shown}");
    }
}

#[test]
fn the_coordinator_is_given_its_settings() {
    let rows = [
        ("store.key_prefix", "team:", "key_prefix=\"team:\""),
        ("store.call_timeout", "1001ms", "call_timeout=1.001s"),
        ("store.poll_interval", "1002ms", "poll_interval=1.002s"),
        ("store.replica_acks", "2", "at_least"),
        (
            "store.idle_token_retention",
            "25h",
            "idle_token_retention=90000s",
        ),
        ("store.request_retention", "61s", "request_retention"),
        (
            "store.fair_waiter_timeout",
            "4001ms",
            "fair_waiter_timeout=4.001s",
        ),
        (
            "store.writer_hold_back",
            "4002ms",
            "writer_hold_back=4.002s",
        ),
        ("store.adopt_redisson_counters", "true", "adopts_counters"),
        ("store.native_commands", "true", "native_commands"),
        ("session.lease", "21s", "lease"),
        ("session.resume_max", "7h", "resume_max=25200s"),
        ("limits.name_bytes_max", "101", "name_bytes_max"),
        ("limits.owner_bytes_max", "102", "owner_bytes_max"),
        ("limits.request_id_bytes_max", "103", "request_id_bytes_max"),
        (
            "limits.client_name_bytes_max",
            "104",
            "client_name_bytes_max",
        ),
        ("limits.lease_min", "2001ms", "lease_min=2.001s"),
        ("limits.lease_max", "9h", "lease_max=32400s"),
        ("limits.waiters_per_lock_max", "105", "waiters_per_lock_max"),
        ("limits.waiters_max", "106", "waiters_max"),
        (
            "limits.waits_per_session_max",
            "107",
            "waits_per_session_max",
        ),
        ("limits.sessions_max", "108", "sessions_max"),
        (
            "limits.grants_per_session_max",
            "109",
            "grants_per_session_max",
        ),
        (
            "limits.locks_per_request_max",
            "110",
            "locks_per_request_max",
        ),
        ("limits.holders_per_lock_max", "111", "holders_per_lock_max"),
        ("limits.permits_per_name_max", "112", "permits_per_name_max"),
    ];
    expect(
        given().flag("store.url", "redis://localhost"),
        &rows,
        |settings| format!("{:?}", coordinator_config(settings)),
    );
}

#[test]
fn the_grpc_port_is_given_its_settings() {
    let rows = [
        ("server.keepalive_interval", "11s", "keepalive_interval"),
        ("server.keepalive_timeout", "12s", "keepalive_timeout"),
        (
            "server.connection_age_max",
            "13m",
            "connection_age_max=Some(780s",
        ),
        ("server.grpc_web", "true", "grpc_web"),
        ("server.http_json", "false", "http_json"),
        ("limits.message_bytes_max", "100001", "message_bytes_max"),
        (
            "limits.unfinished_bytes_max",
            "200002",
            "unfinished_bytes_max",
        ),
        (
            "limits.connection_streams_max",
            "113",
            "connection_streams_max",
        ),
        (
            "limits.operations_per_session_max",
            "114",
            "operations_per_session_max",
        ),
        (
            "limits.header_list_bytes_max",
            "20003",
            "header_list_bytes_max",
        ),
        ("facades.dapr", "true", "dapr"),
        ("facades.etcd", "true", "etcd"),
        ("facades.terraform", "true", "terraform=Some(18000s"),
        ("facades.terraform_lease", "5h", "terraform=Some(18000s"),
    ];
    expect(given(), &rows, |settings| {
        let (fleet, samples) = (Fleet::default(), Samples::default());
        format!("{:?}", grpc_config(settings, &fleet, &samples))
    });
}

#[test]
fn the_listener_is_given_its_settings() {
    let rows = [
        ("server.connections_max", "115", "connections_max"),
        ("server.handshake_timeout", "14s", "handshake_timeout"),
        (
            "server.connection_age_max",
            "15m",
            "connection_age_max=Some(900s",
        ),
        ("limits.connections_per_peer_max", "116", "per_peer_max"),
    ];
    expect(given(), &rows, |settings| {
        format!("{:?}", listen_limits(settings, &Access::default()))
    });
}

#[test]
fn the_admin_port_is_given_its_settings() {
    let rows = [
        ("admin.allow_force_release", "true", "allow_force_release"),
        (
            "admin.authenticate_metrics",
            "true",
            "authenticates_metrics",
        ),
    ];
    let identified = given().flag("auth.token_file", "/tokens");
    expect(identified, &rows, |settings| {
        let (fleet, samples) = (Fleet::default(), Samples::default());
        format!("{:?}", admin_config(settings, &fleet, &samples))
    });
}

#[test]
fn callers_are_admitted_by_the_settings() {
    let rows = [
        ("auth.token_file", "/a", "token_file=Some(\"/a\")"),
        ("auth.jwks_file", "/b", "file=\"/b\""),
        (
            "auth.jwt_issuer",
            "https://issuer",
            "issuer=\"https://issuer\"",
        ),
        ("auth.jwt_audience", "locks", "audience=\"locks\""),
        ("auth.jwt_lifetime_max", "6h", "lifetime_max=Some(21600s"),
        ("server.tls.client_ca_file", "/c", "certificates=true"),
        ("server.tls.certificate_file", "/d", "certificates=true"),
        ("server.tls.key_file", "/e", "certificates=true"),
        ("access.quotas.sessions", "117", "sessions"),
        ("access.quotas.grants", "118", "grants"),
        ("access.quotas.waiters", "119", "waiters"),
        ("access.quotas.waiters_per_lock", "120", "waiters_per_lock"),
        ("access.quotas.streams", "121", "streams"),
        (
            "access.quotas.requests_per_second",
            "122",
            "requests_per_second",
        ),
    ];
    expect(given(), &rows, |settings| {
        format!("{:?}", security::access_config(settings))
    });
}
