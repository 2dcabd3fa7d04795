//! The log.

use serde::{Deserialize, Serialize};

/// The log on stderr.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Text for people, or JSON for machines.
    pub format: LogFormat,
    /// A level, or a list of `target=level`; `RUST_LOG` overrides it.
    pub level: String,
}

/// The format of a log entry.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per entry.
    Json,
}

// === impl Log ===

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            level: "info".to_owned(),
        }
    }
}

// === impl LogFormat ===

impl TryFrom<String> for LogFormat {
    type Error = &'static str;

    fn try_from(word: String) -> Result<Self, Self::Error> {
        match word.as_str() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("must be text or json"),
        }
    }
}
