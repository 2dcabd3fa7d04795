//! The log.

use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::{EnvFilter, LevelFilter};

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

/// The HTTP/2 library. Clients without credentials can make it log a line for each frame, so it is
/// silent unless it is named.
const HTTP2: &str = "h2";

/// The filter of a level, or of a list of `target=level`. A word that is not a level is refused: it
/// would be a target, and all others would be silent.
pub fn filter(directives: &str) -> Result<EnvFilter, String> {
    let is_known = |it: &str| it.contains(['=', '[']) || it.parse::<LevelFilter>().is_ok();
    if let Some(word) = directives.split(',').find(|it| !is_known(it)) {
        let known = "must be off, error, warn, info, debug, trace, or TARGET=LEVEL";
        return Err(format!("{word:?} is no level: {known}"));
    }
    let filter = EnvFilter::try_new(directives).map_err(|error| error.to_string())?;
    // Without directives only errors are logged.
    if directives.is_empty() || directives.split(',').any(|it| it.starts_with(HTTP2)) {
        return Ok(filter);
    }
    let silent = format!("{HTTP2}=off").parse();
    silent
        .map(|silent| filter.add_directive(silent))
        .map_err(|error| error.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for good in [
            "WARN",
            "off",
            "",
            "info,audit=debug",
            "info,[wait{name}]=trace",
            "info,",
        ] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for (directives, expected) in [("info", "h2=off,info"), ("info,h2=trace", "h2=trace,info")]
        {
            let filter = filter(directives).unwrap();
            assert_eq!(filter.to_string(), expected, "{directives}");
        }
        for bad in ["warning", "info,verbose", "audit=info, warn", "audit=loud"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
