//! Derives from the settings who may connect, and what callers may do.

use std::{path::Path, sync::Arc};

use lockkeeper_access::{Access, JwtConfig, Port, Quotas, Right, Rule, Unusable};

use crate::{
    config::{self, AccessQuotas, AccessRight, AccessRule, Settings},
    grpc::listen::{Tls, TlsFiles},
    secret_files, sizing,
};

/// The contents of the files that the settings name.
pub(crate) struct Security {
    pub(crate) access: Access,
    pub(crate) tls: Option<Arc<Tls>>,
}

// === impl Security ===

impl Security {
    /// Reads the files. An error names the section of the settings.
    pub(crate) fn read(
        settings: &Settings,
        memory: Option<u64>,
    ) -> Result<Self, (&'static str, Unusable)> {
        secret_files::check(settings)?;
        let tls = &settings.server.tls;
        let files = file(&tls.certificate_file).zip(file(&tls.key_file));
        let tls = files.map(|(certificate, key)| {
            Tls::new(TlsFiles {
                certificate,
                key,
                client_ca: file(&tls.client_ca_file),
                client_crl: file(&tls.client_crl_file),
            })
        });
        let tls = tls.transpose();
        let tls = tls.map_err(|problem| ("server.tls", problem))?;
        let mut config = access_config(settings);
        if config.is_on() {
            config.quotas = quotas_in_force(settings, memory);
        }
        let port = port(settings, config.is_on());
        let access = Access::new(config, port);
        Ok(Self {
            access: access.map_err(|problem| ("auth", problem))?,
            tls: tls.map(Arc::new),
        })
    }
}

/// The quotas in force, those that are not set derived from the limits.
pub(crate) fn quotas_in_force(settings: &Settings, memory: Option<u64>) -> Quotas {
    quotas(sizing::quotas(settings, memory))
}

/// Whether callers have to be identified.
pub(crate) fn identifies(settings: &Settings) -> bool {
    access_config(settings).is_on()
}

/// The rules of the settings.
pub(crate) fn rules(access: &config::Access) -> Vec<Rule> {
    access.rules.iter().map(rule).collect()
}

/// The trust in callers of the gRPC port. Its address was checked with the settings.
fn port(settings: &Settings, is_on: bool) -> Port {
    let server = &settings.server;
    let is_local = server.listen.0.is_none_or(|it| is_loopback(it.ip()));
    Port {
        admits_anonymous: !is_on || server.allow_unauthenticated,
        is_trusted: is_local,
        takes_tokens: true,
    }
}

/// The trust in callers of the admin port, which has no TLS.
pub(crate) fn admin_port(settings: &Settings) -> Port {
    let is_local = settings
        .admin
        .listen
        .0
        .is_none_or(|it| is_loopback(it.ip()));
    let is_on = identifies(settings);
    let allowed = settings.admin.allow_unauthenticated;
    Port {
        admits_anonymous: allowed || (is_local && !is_on),
        is_trusted: allowed || is_local,
        takes_tokens: is_local || settings.auth.allow_plaintext,
    }
}

fn is_loopback(address: std::net::IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

pub(crate) fn access_config(settings: &Settings) -> lockkeeper_access::Config {
    let Settings { auth, access, .. } = settings;
    let jwt = file(&auth.jwks_file).map(|file| JwtConfig {
        file,
        issuer: auth.jwt_issuer.clone(),
        audience: auth.jwt_audience.clone(),
        lifetime_max: Some(auth.jwt_lifetime_max).filter(|it| !it.is_zero()),
    });
    lockkeeper_access::Config {
        token_file: file(&auth.token_file),
        jwt,
        certificates: file(&settings.server.tls.client_ca_file).is_some(),
        rules: rules(access),
        quotas: quotas(access.quotas),
    }
}

fn quotas(quotas: AccessQuotas) -> Quotas {
    Quotas {
        sessions: quotas.sessions,
        grants: quotas.grants,
        waiters: quotas.waiters,
        waiters_per_lock: quotas.waiters_per_lock,
        streams: quotas.streams,
        requests_per_second: quotas.requests_per_second,
    }
}

fn rule(rule: &AccessRule) -> Rule {
    let right = |right: &AccessRight| match right {
        AccessRight::Acquire => Right::Acquire,
        AccessRight::Release => Right::Release,
        AccessRight::Describe => Right::Describe,
        AccessRight::Preempt => Right::Preempt,
        AccessRight::Admin => Right::Admin,
    };
    Rule {
        identity: rule.identity.clone(),
        prefix: rule.prefix.clone(),
        allow: rule.allow.iter().map(right).collect(),
    }
}

fn file(path: &Path) -> Option<std::path::PathBuf> {
    (!path.as_os_str().is_empty()).then(|| path.to_owned())
}
