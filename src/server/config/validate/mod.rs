//! Checks the value of each key.

use std::{path::Path, time::Duration};

use lockkeeper_base::metrics::OTHER_NAMES;

use super::{
    Admin, Limits, Log, ReplicaAcks, Session, Settings, Store, StoreUrl, Telemetry, log,
    security::is_set, session_secrets,
};

mod quorum;
mod security;

/// The store counts in milliseconds, and a lease of zero would expire at once.
const LEASE_RESOLUTION: Duration = Duration::from_millis(1);

/// Longer ones overflow in the store or on the clock.
const DURATION_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Beyond this, sleeping is cheaper than polling, whatever the event.
const BUSY_POLL_MAX: Duration = Duration::from_millis(10);

/// Below it, clients would do little but connect.
const CONNECTION_AGE_MIN: Duration = Duration::from_secs(1);

/// The process could not begin with many more.
const WORKER_THREADS_MAX: usize = 1024;
const STORE_CONNECTIONS_MAX: usize = 1000;

/// Keeps the longest names well within the store's limit on keys.
const KEY_PREFIX_BYTES_MAX: usize = 128;

/// Each adds 15 samples, and all together must leave a fresh coordinator below 600.
const METRIC_PREFIXES_MAX: usize = 10;

/// Prometheus keeps the label with every sample.
const METRIC_PREFIX_BYTES_MAX: usize = 128;

/// Settings with their full keys.
macro_rules! settings {
    ($($section:ident.$key:ident),* $(,)?) => {
        [$((concat!(stringify!($section), ".", stringify!($key)), $section.$key)),*]
    };
}

/// A session that lives gets new tokens long before.
const RESUME_MAX_MIN: Duration = Duration::from_secs(60);

/// Calls `report` for each invalid value, with the full key and the problem.
pub(super) fn check(settings: &Settings, report: &mut dyn FnMut(&str, String)) {
    let Settings {
        store,
        session,
        limits,
        log,
        telemetry,
        ..
    } = settings;
    check_ranges(settings, report);
    check_store(store, limits, report);
    check_session(session, limits, report);
    check_limits(limits, report);
    check_log(log, report);
    security::check(settings, report);
    check_telemetry(telemetry, report);
    check_fleet(settings, report);
    check_metric_prefixes(&settings.admin, report);
}

fn check_metric_prefixes(admin: &Admin, report: &mut dyn FnMut(&str, String)) {
    let prefixes = &admin.metric_prefixes;
    let why = if prefixes.len() > METRIC_PREFIXES_MAX {
        format!("must not have more than {METRIC_PREFIXES_MAX} prefixes")
    } else if prefixes
        .iter()
        .any(|it| it.is_empty() || it.len() > METRIC_PREFIX_BYTES_MAX)
    {
        format!("must be prefixes of 1 to {METRIC_PREFIX_BYTES_MAX} bytes")
    } else if prefixes.iter().any(|it| it == OTHER_NAMES) {
        format!("must not have {OTHER_NAMES}, which stands for all names without a prefix")
    } else if (1..prefixes.len()).any(|at| prefixes[..at].contains(&prefixes[at])) {
        "must not have a prefix twice".to_owned()
    } else {
        return;
    };
    report("admin.metric_prefixes", why);
}

fn check_fleet(settings: &Settings, report: &mut dyn FnMut(&str, String)) {
    let (fleet, session) = (&settings.fleet, &settings.session);
    if let Some(why) = fleet.problem() {
        report("fleet.address", why.to_owned());
    }
    let is_ip = fleet.address.parse::<std::net::IpAddr>().is_ok();
    if is_ip && settings.server.listen.0.is_none() {
        report(
            "fleet.address",
            "needs a port without server.listen".to_owned(),
        );
    }
    let is_secret = !session.secret.is_empty() || !session.secret_file.as_os_str().is_empty();
    if !fleet.address.is_empty() && !is_secret {
        let why = "needs session.secret, the same for all coordinators, by which they know each \
                   other";
        report("fleet.address", why.to_owned());
    }
    let certificate = ("fleet.certificate_file", &*fleet.certificate_file);
    check_pair(certificate, ("fleet.key_file", &fleet.key_file), report);
}

/// A certificate needs its key, and a key its certificate.
fn check_pair(
    certificate: (&str, &Path),
    key: (&str, &Path),
    report: &mut dyn FnMut(&str, String),
) {
    for (one, other) in [(certificate, key), (key, certificate)] {
        if is_set(one.1) && !is_set(other.1) {
            report(other.0, format!("must be set together with {}", one.0));
        }
    }
}

fn check_ranges(settings: &Settings, report: &mut dyn FnMut(&str, String)) {
    let Settings {
        server,
        store,
        session,
        limits,
        ..
    } = settings;
    let durations = settings![
        server.keepalive_interval,
        server.keepalive_timeout,
        server.handshake_timeout,
        store.call_timeout,
        store.quorum_member_timeout,
        store.connect_timeout,
        store.replica_ack_timeout,
        store.pubsub_ping_interval,
        store.poll_interval,
        store.request_retention,
        session.lease,
        session.resume_max,
        limits.lease_min,
        limits.lease_max,
    ];
    for (key, duration) in durations {
        if duration < LEASE_RESOLUTION {
            report(key, "must be at least 1ms".to_owned());
        }
    }
    let may_be_zero = settings![
        server.drain_grace,
        server.connection_age_max,
        store.idle_token_retention,
        store.fair_waiter_timeout,
        store.writer_hold_back,
    ];
    for (key, duration) in durations.into_iter().chain(may_be_zero) {
        if duration > DURATION_MAX {
            report(key, "must not be longer than 100 years".to_owned());
        }
    }
    let lease = settings.facades.terraform_lease;
    if settings.facades.terraform && (lease < limits.lease_min || lease > limits.lease_max) {
        let why = "must be from limits.lease_min to limits.lease_max";
        report("facades.terraform_lease", why.to_owned());
    }
    let age = server.connection_age_max;
    if !age.is_zero() && age < CONNECTION_AGE_MIN {
        let why = "must be at least 1s, or 0s for no limit";
        report("server.connection_age_max", why.to_owned());
    }
    if server.busy_poll > BUSY_POLL_MAX {
        let why = "must not be longer than 10ms";
        report("server.busy_poll", why.to_owned());
    }
    let (threads, connections) = (server.worker_threads, store.connections);
    for (key, count, max) in [
        ("server.worker_threads", threads, WORKER_THREADS_MAX),
        ("store.connections", connections, STORE_CONNECTIONS_MAX),
    ] {
        if count > max {
            report(key, format!("must not be more than {max}"));
        }
    }
    check_counts(store, limits, report);
}

fn check_counts(store: &Store, limits: &Limits, report: &mut dyn FnMut(&str, String)) {
    let counts = settings![
        store.connections,
        limits.name_bytes_max,
        limits.owner_bytes_max,
        limits.request_id_bytes_max,
        limits.client_name_bytes_max,
        limits.message_bytes_max,
        limits.grants_per_session_max,
        limits.locks_per_request_max,
        limits.operations_per_session_max,
        limits.waits_per_session_max,
        limits.unauthenticated_connections_max,
        limits.unfinished_bytes_max,
    ];
    let of_others = settings![
        limits.connection_streams_max,
        limits.header_list_bytes_max,
        limits.holders_per_lock_max,
        limits.permits_per_name_max,
    ];
    let of_others = of_others.map(|(key, count)| (key, count as usize));
    for (key, count) in counts.into_iter().chain(of_others) {
        if count == 0 {
            report(key, "must not be zero".to_owned());
        }
    }
}

/// A shorter one would take a busy coordinator for a dead one.
const FAIR_WAITER_TIMEOUT_MIN: Duration = Duration::from_secs(1);

fn check_store(store: &Store, limits: &Limits, report: &mut dyn FnMut(&str, String)) {
    if store.quorum.is_empty() {
        check_url("store.url", &store.url, report);
    } else {
        quorum::check(store, report);
    }
    let without_replicas = if !store.quorum.is_empty() {
        Some("a quorum of stores, whose majority takes the place of replicas")
    } else if store.url.scheme() == Some("embedded") {
        Some("the embedded store, which has no replicas")
    } else {
        None
    };
    if let (Some(what), true) = (without_replicas, store.replica_acks != ReplicaAcks::None) {
        report("store.replica_acks", format!("must be none with {what}"));
    }
    check_tls(store, report);
    if store.client_name.is_empty() || !store.client_name.bytes().all(|it| it.is_ascii_graphic()) {
        report(
            "store.client_name",
            "must be letters, digits and signs without spaces, and not empty".to_owned(),
        );
    }
    if store.key_prefix.len() > KEY_PREFIX_BYTES_MAX {
        report(
            "store.key_prefix",
            format!("must not be longer than {KEY_PREFIX_BYTES_MAX} bytes"),
        );
    }
    if store.key_prefix.chars().any(char::is_control) {
        report(
            "store.key_prefix",
            "must not contain control characters".to_owned(),
        );
    }
    if store.fair_waiter_timeout < FAIR_WAITER_TIMEOUT_MIN {
        report(
            "store.fair_waiter_timeout",
            "must be at least 1s: a waiter is refreshed three times within it".to_owned(),
        );
    }
    if !store.idle_token_retention.is_zero() && store.idle_token_retention < limits.lease_max {
        report(
            "store.idle_token_retention",
            "must not be shorter than limits.lease_max, or a held lock forgets its token (0s: for \
            ever)"
                .to_owned(),
        );
    }
}

/// Certificates need TLS.
fn check_tls(store: &Store, report: &mut dyn FnMut(&str, String)) {
    let tls = &store.tls;
    let certificate = ("store.tls.certificate_file", &*tls.certificate_file);
    let key = ("store.tls.key_file", &*tls.key_file);
    let urls = match store.quorum.as_slice() {
        [] => std::slice::from_ref(&store.url),
        several => several,
    };
    let has_tls = |url: &StoreUrl| url.scheme().is_some_and(|it| it.starts_with("rediss"));
    for (key, file) in [("store.tls.ca_file", &*tls.ca_file), certificate, key] {
        if is_set(file) && !urls.iter().any(has_tls) {
            report(key, "needs a store.url that begins with rediss".to_owned());
        }
    }
    check_pair(certificate, key, report);
}

fn check_url(key: &str, url: &StoreUrl, report: &mut dyn FnMut(&str, String)) {
    const SUPPORTED: &str = "supported are embedded:, redis://HOST:PORT/DB, \
    redis+sentinel://HOST:PORT,HOST:PORT/SERVICE, redis+cluster://HOST:PORT,HOST:PORT and the \
    same with rediss for TLS";
    let text = url.expose();
    match url.scheme() {
        Some("embedded") if text == "embedded:" => {}
        Some("embedded") => report(key, "nothing may follow embedded:".to_owned()),
        Some(
            "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster"
            | "rediss+cluster",
        ) => {
            let authority = text.split_once("://").map_or("", |(_, rest)| rest);
            let host = authority
                .rsplit_once('@')
                .map_or(authority, |(_, host)| host);
            if host.is_empty() || host.starts_with(['/', ':', '?']) {
                report(key, format!("names no host; {SUPPORTED}"));
            }
        }
        // Only a scheme is quoted: without `://` the text before the colon may be anything, even a
        // password.
        Some(scheme) if text.contains("://") && !scheme.contains('@') => {
            report(key, format!("unknown scheme {scheme}; {SUPPORTED}"));
        }
        _ => report(key, format!("not an address; {SUPPORTED}")),
    }
}

fn check_session(session: &Session, limits: &Limits, report: &mut dyn FnMut(&str, String)) {
    if session.lease < limits.lease_min {
        report(
            "session.lease",
            "must not be shorter than limits.lease_min".to_owned(),
        );
    }
    if session.lease > limits.lease_max {
        report(
            "session.lease",
            "must not be longer than limits.lease_max".to_owned(),
        );
    }
    if session.resume_max < session.lease.max(RESUME_MAX_MIN) {
        let why = "must not be shorter than session.lease, nor than 1m";
        report("session.resume_max", why.to_owned());
    }
    if let Some(why) = session_secrets::problem(session.secret.expose()) {
        report("session.secret", why);
    }
}

fn check_limits(limits: &Limits, report: &mut dyn FnMut(&str, String)) {
    if limits.lease_min > limits.lease_max {
        report(
            "limits.lease_min",
            "must not be larger than limits.lease_max".to_owned(),
        );
    }
    let texts = [
        limits.name_bytes_max,
        limits.owner_bytes_max,
        limits.request_id_bytes_max,
        limits.client_name_bytes_max,
    ];
    let texts = texts.into_iter().fold(0_usize, usize::saturating_add);
    if limits.message_bytes_max <= texts {
        report(
            "limits.message_bytes_max",
            format!("must be larger than the other limits of bytes together ({texts})"),
        );
    }
}

fn check_log(log: &Log, report: &mut dyn FnMut(&str, String)) {
    if let Err(why) = log::filter(&log.level) {
        report("log.level", why);
    }
}

fn check_telemetry(telemetry: &Telemetry, report: &mut dyn FnMut(&str, String)) {
    if !(0.0..=1.0).contains(&telemetry.sample_ratio) {
        let ratio = telemetry.sample_ratio;
        let why = format!("must be from 0 to 1, is {ratio}");
        report("telemetry.sample_ratio", why);
    }
    let endpoint = &telemetry.otlp_endpoint;
    let is_url = endpoint.starts_with("http://") || endpoint.starts_with("https://");
    if !endpoint.is_empty() && !is_url {
        let why = "must be empty, or start with http:// or https://";
        report("telemetry.otlp_endpoint", why.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::given;

    #[test]
    fn what_a_coordinator_could_not_work_with_is_refused() {
        for (key, value, problem) in [
            ("store.fair_waiter_timeout", "900ms", "at least 1s"),
            ("store.client_name", "a b", "without spaces"),
            ("limits.holders_per_lock_max", "0", "must not be zero"),
            ("limits.permits_per_name_max", "0", "must not be zero"),
            ("session.resume_max", "59s", "nor than 1m"),
            ("server.connection_age_max", "900ms", "at least 1s"),
            ("server.tls.client_crl_file", "l", "client_ca_file"),
            ("fleet.address", "http://a:1", "needs session.secret"),
            ("fleet.key_file", "k", "together"),
        ] {
            let refusal = given().flag(key, value).refusal();
            assert!(refusal.contains(problem), "{key} = {value}: {refusal}");
        }
        let long = given().flag("session.lease", "10m");
        let refusal = long.flag("session.resume_max", "9m").refusal();
        assert!(refusal.starts_with("session.resume_max: "), "{refusal}");
    }
}
