//! The number of replicas that must acknowledge a change, as a setting.

use serde::{Deserialize, Serialize};

/// `none`, a number, or `all`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum ReplicaAcks {
    /// No acknowledgement is required.
    #[default]
    None,
    /// At least this number; never 0.
    AtLeast(u32),
    /// All connected replicas, and at least one.
    All,
}

impl TryFrom<String> for ReplicaAcks {
    type Error = &'static str;

    fn try_from(word: String) -> Result<Self, Self::Error> {
        match (word.as_str(), word.parse()) {
            ("none", _) | (_, Ok(0)) => Ok(Self::None),
            ("all", _) => Ok(Self::All),
            (_, Ok(number)) => Ok(Self::AtLeast(number)),
            (_, Err(_)) => Err("must be none, all or a number"),
        }
    }
}

impl From<ReplicaAcks> for String {
    fn from(acks: ReplicaAcks) -> Self {
        match acks {
            ReplicaAcks::None => "none".to_owned(),
            ReplicaAcks::AtLeast(number) => number.to_string(),
            ReplicaAcks::All => "all".to_owned(),
        }
    }
}
