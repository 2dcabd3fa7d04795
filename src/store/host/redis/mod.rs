//! Scripts on Redis.
//!
//! A [`link`] is one shared connection that repairs itself; [`eval`] sends a script over it, and
//! [`commands`] what needs no script, both over its [`wire`]; [`subscriber`] keeps the
//! subscriptions of one server on a connection of its own; an [`acknowledger`] waits for the
//! replicas of one server. What a topology adds is which link a call takes.

mod acknowledger;
mod address;
mod brief;
mod cluster;
mod commands;
mod config;
mod dial;
mod endpoint;
mod eval;
#[cfg(test)]
mod fake;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod link;
mod links;
mod orders;
mod queue;
mod reply;
mod resp;
mod rights;
mod round;
mod saved;
mod scanner;
mod sentinel;
mod settings;
mod single;
mod stall;
mod subscriber;
mod subscriptions;
mod target;
mod url;
mod wire;

pub use config::{ConfigError, RedisConfig, TlsCertificates};

use super::Connected;
use url::Kind;

/// A client of one Redis, of the one that sentinels name, or of the masters of a cluster. Returns
/// at once, whether Redis can be reached or not: the connections are opened in the background, and
/// again whenever they are lost. Only a configuration that cannot ever work is an error.
pub fn connect(config: &RedisConfig) -> Result<Connected, ConfigError> {
    match url::kind(&config.url) {
        Kind::Single => single::connect(config),
        Kind::Sentinel => sentinel::connect(config),
        Kind::Cluster => cluster::connect(config),
    }
}
