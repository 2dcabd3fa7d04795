//! Who calls, and what they may do. A leaf: it knows neither the protocol that carries credentials
//! nor what a lock is.
//!
//! An [`Identity`] is a name: of a certificate, of a token, or of a user of this machine. Each
//! [`Rule`] says what identities may do, [`Quotas`] how much; [`Access`] applies both at a port.

mod access;
mod account;
mod audit;
mod certificate;
mod error;
mod files;
mod identity;
mod jwt;
mod ring_keys;
mod rules;
mod tokens;

pub use self::{
    access::{Access, Config, Port},
    account::{Account, Counted, Quota, QuotaReached, Quotas},
    audit::Audited,
    certificate::of_certificate,
    error::{Unauthenticated, Unusable},
    files::Watched,
    identity::Identity,
    jwt::JwtConfig,
    rules::{Right, Rule},
};
