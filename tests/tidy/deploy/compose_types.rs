//! The part of the compose file's schema that ours uses; anything else is refused.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Compose {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "x-coordinator")]
    _coordinator: IgnoredAny,
    #[serde(rename = "x-redis")]
    _redis: IgnoredAny,
    #[serde(rename = "x-sentinel-redis")]
    _sentinel_redis: IgnoredAny,
    #[serde(rename = "x-sentinel")]
    _sentinel: IgnoredAny,
    #[serde(rename = "x-cluster-node")]
    _cluster_node: IgnoredAny,
    pub(super) services: BTreeMap<String, Service>,
    pub(super) networks: BTreeMap<String, Network>,
    pub(super) volumes: BTreeMap<String, Option<Volume>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Service {
    pub(super) image: String,
    pub(super) build: Option<Build>,
    pub(super) profiles: Vec<String>,
    #[serde(default)]
    pub(super) command: Vec<String>,
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) ports: Vec<String>,
    #[serde(default)]
    pub(super) volumes: Vec<String>,
    pub(super) networks: Networks,
    #[serde(default)]
    pub(super) depends_on: BTreeMap<String, Dependency>,
    pub(super) healthcheck: Option<HealthCheck>,
    pub(super) restart: Restart,
    pub(super) user: Option<String>,
    #[serde(default)]
    pub(super) read_only: bool,
    pub(super) cap_drop: Vec<String>,
    pub(super) security_opt: Vec<String>,
    #[serde(rename = "stop_grace_period")]
    _stop_grace_period: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Build {
    pub(super) context: String,
    pub(super) dockerfile: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Networks {
    Plain(Vec<String>),
    WithAddress(BTreeMap<String, Address>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Address {
    pub(super) ipv4_address: std::net::Ipv4Addr,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dependency {
    pub(super) condition: Condition,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Condition {
    ServiceHealthy,
    ServiceCompletedSuccessfully,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HealthCheck {
    pub(super) test: Vec<String>,
    pub(super) interval: String,
    pub(super) timeout: String,
    #[serde(rename = "retries")]
    _retries: u32,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Restart {
    UnlessStopped,
    OnFailure,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Network {
    pub(super) ipam: Option<Ipam>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ipam {
    pub(super) config: Vec<Subnet>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Subnet {
    pub(super) subnet: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Volume {
    #[serde(rename = "name")]
    _name: Option<String>,
}

// === impl Networks ===

impl Networks {
    pub(super) fn names(&self) -> Vec<&String> {
        match self {
            Self::Plain(names) => names.iter().collect(),
            Self::WithAddress(names) => names.keys().collect(),
        }
    }

    pub(super) fn address(&self) -> Option<std::net::Ipv4Addr> {
        match self {
            Self::Plain(_) => None,
            Self::WithAddress(names) => names.values().next().map(|it| it.ipv4_address),
        }
    }
}
