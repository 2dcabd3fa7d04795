//! Checks who may reach each port. A caller without credentials can take every lock, so an open
//! port must be configured explicitly.

use std::net::SocketAddr;

use super::check_pair;
use crate::config::{Settings, security::is_set};

pub(super) fn check(settings: &Settings, report: &mut dyn FnMut(&str, String)) {
    check_listeners(settings, report);
    check_tls(settings, report);
    check_tokens(settings, report);
    check_rules(settings, report);
    check_names(settings, report);
    check_audit(settings, report);
    check_admin(settings, report);
}

/// Whether other machines can reach the address.
fn is_public(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

fn check_listeners(settings: &Settings, report: &mut dyn FnMut(&str, String)) {
    let (server, auth) = (&settings.server, &settings.auth);
    if server.listen.0.is_none() && !is_set(&server.uds_path) {
        let why = "must not be empty without server.uds_path";
        report("server.listen", why.to_owned());
    }
    let Some(address) = server.listen.0.filter(|address| is_public(*address)) else {
        return;
    };
    let has_tls = is_set(&server.tls.certificate_file);
    if auth.takes_tokens() && !has_tls && !auth.allow_plaintext {
        let why = format!(
            "{address} can be reached by other machines, and bearer tokens would travel there in \
            plain text: set server.tls.certificate_file and \
             server.tls.key_file, or auth.allow_plaintext = true if something else encrypts"
        );
        report("server.listen", why);
    }
    let is_authenticated = auth.takes_tokens() || is_set(&server.tls.client_ca_file);
    if !is_authenticated && !server.allow_unauthenticated {
        let why = format!(
            "{address} can be reached by other machines, and nobody would have to show who they \
            are: set auth.token_file, auth.jwks_file or \
             server.tls.client_ca_file, or server.allow_unauthenticated = true \
             (--allow-unauthenticated) if only trusted machines reach it"
        );
        report("server.listen", why);
    }
}

fn check_tls(settings: &Settings, report: &mut dyn FnMut(&str, String)) {
    let tls = &settings.server.tls;
    let (certificate, key) = ("server.tls.certificate_file", "server.tls.key_file");
    let files = (&*tls.certificate_file, &*tls.key_file);
    check_pair((certificate, files.0), (key, files.1), report);
    if is_set(&tls.client_ca_file) && !is_set(files.0) && !is_set(files.1) {
        let why = format!("needs {certificate} and {key}");
        report("server.tls.client_ca_file", why);
    }
    if is_set(&tls.client_crl_file) && !is_set(&tls.client_ca_file) {
        let why = "needs server.tls.client_ca_file";
        report("server.tls.client_crl_file", why.to_owned());
    }
    if is_set(&tls.certificate_file) && settings.server.listen.0.is_none() {
        report(certificate, "needs server.listen".to_owned());
    }
}

fn check_tokens(settings: &Settings, report: &mut dyn FnMut(&str, String)) {
    let auth = &settings.auth;
    let claims = [
        ("auth.jwt_issuer", &auth.jwt_issuer),
        ("auth.jwt_audience", &auth.jwt_audience),
    ];
    for (key, value) in claims {
        match (is_set(&auth.jwks_file), value.is_empty()) {
            (true, true) => {
                let why =
                    "must be set with auth.jwks_file: tokens for other services would be accepted";
                report(key, why.to_owned());
            }
            (false, false) => report(key, "needs auth.jwks_file".to_owned()),
            _ => {}
        }
    }
    if !auth.jwt_lifetime_max.is_zero() && !is_set(&auth.jwks_file) {
        report("auth.jwt_lifetime_max", "needs auth.jwks_file".to_owned());
    }
}

fn check_admin(settings: &Settings, report: &mut dyn FnMut(&str, String)) {
    let (admin, auth) = (&settings.admin, &settings.auth);
    let is_public = admin.listen.0.is_some_and(is_public);
    if is_public && admin.allow_unauthenticated && admin.allow_force_release {
        let why = "must not be set with admin.allow_unauthenticated where other machines reach \
                   admin.listen";
        report("admin.allow_force_release", why.to_owned());
    }
    if admin.authenticate_metrics && !auth.takes_tokens() {
        let why = "needs auth.token_file or auth.jwks_file";
        report("admin.authenticate_metrics", why.to_owned());
    } else if admin.authenticate_metrics && is_public && !auth.allow_plaintext {
        let why = "needs auth.allow_plaintext = true where other machines reach admin.listen: that \
                   port has no TLS, and bearer tokens would travel in plain text";
        report("admin.authenticate_metrics", why.to_owned());
    }
    let hosts = [
        ("server.allowed_hosts", &settings.server.allowed_hosts),
        ("admin.allowed_hosts", &admin.allowed_hosts),
    ];
    for (key, hosts) in hosts {
        let is_name = |host: &String| !host.is_empty() && !host.contains(['/', ':', '*', ' ']);
        if !hosts.iter().all(is_name) {
            let why = "must be names of hosts, without a scheme, a port or *";
            report(key, why.to_owned());
        }
    }
}

/// Rules name locks, and a lock's name without a prefix may be the key of another program.
fn check_names(settings: &Settings, report: &mut dyn FnMut(&str, String)) {
    let Settings { auth, access, .. } = settings;
    let store = &settings.store;
    let is_shared = !store.quorum.is_empty() || store.url.scheme() != Some("embedded");
    let has_rights = auth.takes_tokens()
        || is_set(&settings.server.tls.client_ca_file)
        || !access.rules.is_empty();
    if is_shared && has_rights && store.key_prefix.is_empty() && !store.shares_names {
        let why = "must not be empty with auth, server.tls.client_ca_file or access.rules, or \
                   callers reach keys of other programs in the store: set a prefix that no other \
                   program uses, or store.shares_names = true if names are shared on purpose, as \
                   with Redisson, or if locks without a prefix are in use";
        report("store.key_prefix", why.to_owned());
    }
}

fn check_audit(settings: &Settings, report: &mut dyn FnMut(&str, String)) {
    if settings.audit.blocking && !is_set(&settings.audit.file) {
        report("audit.blocking", "needs audit.file".to_owned());
    }
}

fn check_rules(settings: &Settings, report: &mut dyn FnMut(&str, String)) {
    let (server, rules) = (&settings.server, &settings.access.rules);
    let has_identities = settings.auth.takes_tokens()
        || is_set(&server.tls.client_ca_file)
        || is_set(&server.uds_path)
        || server.allow_unauthenticated;
    let is_limited =
        !rules.is_empty() || settings.access.quotas != super::super::AccessQuotas::default();
    if is_limited && !has_identities {
        let why = "nobody could show who they are: set auth.token_file, auth.jwks_file, \
        server.tls.client_ca_file, server.uds_path, or \
                   server.allow_unauthenticated = true with rules for `anonymous`";
        report("access", why.to_owned());
    }
    for (rule, at) in rules.iter().zip(1..) {
        let refused = if rule.identity.is_empty() {
            Some("identity must not be empty; * matches every identity")
        } else if rule.identity.trim_end_matches('*').contains('*') || rule.identity.ends_with("**")
        {
            Some("identity may have one *, at its end")
        } else if rule.allow.is_empty() {
            Some("allow must name at least one of acquire, release, describe, preempt, admin")
        } else {
            None
        };
        if let Some(why) = refused {
            report("access.rules", format!("rule {at}: {why}"));
        }
    }
}
