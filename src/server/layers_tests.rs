use super::*;
use lockkeeper_store::host::Metrics;

use crate::{
    config::tests::{Given, given},
    security, wiring,
};

/// A setting, a value that no other has, and the field and value of the layer's configuration
/// (`field=value`), each if it differs.
type Row<'a> = (&'a str, &'a str, &'a str);

fn expect(given: Given, rows: &[Row<'_>], configured: impl Fn(&Settings) -> String) {
    let set = rows.iter();
    let settings = set.fold(given, |given, (key, value, _)| given.flag(key, value));
    let shown = configured(&settings.settings());
    for (key, value, field) in rows {
        let (name, value) = field.split_once('=').unwrap_or((field, value));
        let same = key.rsplit('.').next().unwrap_or_default();
        let name = if name.is_empty() { same } else { name };
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
        ("store.key_prefix", "team:", "=\"team:\""),
        ("store.call_timeout", "1001ms", "=1.001s"),
        ("store.poll_interval", "1002ms", "=1.002s"),
        ("store.replica_acks", "2", "at_least"),
        ("store.idle_token_retention", "25h", "=90000s"),
        ("store.request_retention", "61s", ""),
        ("store.fair_waiter_timeout", "4001ms", "=4.001s"),
        ("store.writer_hold_back", "4002ms", "=4.002s"),
        ("store.adopt_redisson_counters", "true", "adopts_counters"),
        ("store.native_commands", "true", ""),
        ("session.lease", "21s", ""),
        ("session.resume_max", "7h", "=25200s"),
        ("limits.name_bytes_max", "101", ""),
        ("limits.owner_bytes_max", "102", ""),
        ("limits.request_id_bytes_max", "103", ""),
        ("limits.client_name_bytes_max", "104", ""),
        ("limits.lease_min", "2001ms", "=2.001s"),
        ("limits.lease_max", "9h", "=32400s"),
        ("limits.waiters_per_lock_max", "105", ""),
        ("limits.waiters_max", "106", ""),
        ("limits.waits_per_session_max", "107", ""),
        ("limits.sessions_max", "108", ""),
        ("limits.grants_per_session_max", "109", ""),
        ("limits.locks_per_request_max", "110", ""),
        ("limits.holders_per_lock_max", "111", ""),
        ("limits.permits_per_name_max", "112", ""),
    ];
    expect(
        given().flag("store.url", "redis://localhost"),
        &rows,
        |settings| format!("{:?}", coordinator_config(settings)),
    );
}

#[test]
fn a_client_of_redis_is_given_its_settings() {
    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let given = given();
    let file = given.write("tls.pem", PEM);
    let file = file.to_str().unwrap();
    // Of certificates only whether there are any is shown.
    let rows = [
        ("store.url", "rediss://localhost:1", ""),
        ("store.client_name", "ours", "=\"ours\""),
        (
            "store.key_prefix",
            "team:",
            "replica_marker=\"team:lockkeeper_replicated\"",
        ),
        (
            "store.key_prefix",
            "team:",
            "probe_channels=[\"redisson_lock__channel:{team:lockkeeper_replicated}\"",
        ),
        ("store.connect_timeout", "1003ms", "=1.003s"),
        ("store.replica_ack_timeout", "1004ms", "=1.004s"),
        (
            "store.pubsub_ping_interval",
            "1005ms",
            "ping_interval=1.005s",
        ),
        ("store.connections", "3", ""),
        ("store.tls.ca_file", file, "root=true"),
    ];
    let timeout = Duration::from_secs(1);
    expect(given, &rows, |settings| {
        let url = &settings.store.url;
        let config = wiring::redis_config(settings, url, timeout, &Metrics::default()).unwrap();
        format!("{config:?} url: {} ", config.url)
    });
}

#[test]
fn the_grpc_port_is_given_its_settings() {
    let rows = [
        ("server.keepalive_interval", "11s", ""),
        ("server.keepalive_timeout", "12s", ""),
        ("server.connection_age_max", "13m", "=Some(780s"),
        ("server.grpc_web", "true", ""),
        ("server.http_json", "false", ""),
        ("limits.message_bytes_max", "100001", ""),
        ("limits.unfinished_bytes_max", "200002", ""),
        ("limits.connection_streams_max", "113", ""),
        ("limits.operations_per_session_max", "114", ""),
        ("limits.header_list_bytes_max", "20003", ""),
        ("facades.dapr", "true", ""),
        ("facades.etcd", "true", ""),
        ("facades.terraform", "true", "=Some(18000s"),
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
        ("server.connections_max", "115", ""),
        ("server.handshake_timeout", "14s", ""),
        ("server.connection_age_max", "15m", "=Some(900s"),
        ("limits.connections_per_peer_max", "116", "per_peer_max"),
    ];
    expect(given(), &rows, |settings| {
        format!("{:?}", listen_limits(settings, &Access::default()))
    });
}

#[test]
fn the_admin_port_is_given_its_settings() {
    let rows = [
        ("admin.allow_force_release", "true", ""),
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
        ("auth.token_file", "/a", "=Some(\"/a\")"),
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
        ("access.quotas.sessions", "117", ""),
        ("access.quotas.grants", "118", ""),
        ("access.quotas.waiters", "119", ""),
        ("access.quotas.waiters_per_lock", "120", ""),
        ("access.quotas.streams", "121", ""),
        ("access.quotas.requests_per_second", "122", ""),
    ];
    expect(given(), &rows, |settings| {
        format!("{:?}", security::access_config(settings))
    });
}
