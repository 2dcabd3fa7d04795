//! Authentication and authorization of callers. A leaf: it knows neither the protocol that carries
//! credentials nor what a lock is.
//!
//! An [`Identity`] is a name from a certificate, from a token, or of a user of this machine. Each
//! [`Rule`] grants rights to identities, [`Quotas`] limit their use; [`Access`] applies both at a
//! port.

mod access;
mod account;
mod audit;
mod certificate;
mod denials;
#[cfg(test)]
mod entries;
mod error;
mod files;
mod identity;
mod jwt;
mod ring_keys;
mod rules;
mod tokens;
mod watchers;

pub use self::{
    access::{Access, Config, Port},
    account::{Account, Counted, Quota, QuotaReached, Quotas},
    audit::Audited,
    certificate::{end_of_certificate, of_certificate},
    error::{Unauthenticated, Unusable},
    files::Watched,
    identity::Identity,
    jwt::JwtConfig,
    rules::{Right, Rule},
    watchers::WatcherPlace,
};
