//! The form of data on stdout.

use std::io;

use clap::ValueEnum;
use prost::Message;
use serde_json::Value;

use super::{json::json, stdio::print};

/// The form of data on stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Human-readable lines.
    #[default]
    Text,
    /// One JSON object on one line, as in the API.
    Json,
}

impl Format {
    /// Prints one document in this form. Fails if stdout is closed.
    pub fn data(self, text: &str, json: &Value) -> io::Result<()> {
        match self {
            Self::Text => print(&format!("{}\n", printable(text))),
            Self::Json => print(&format!("{json}\n")),
        }
    }

    /// The same for an answer of the API, of this message type.
    pub(crate) fn answer(self, text: &str, message: &str, answer: &impl Message) -> io::Result<()> {
        let json = match self {
            Self::Text => Value::Null,
            Self::Json => json(message, answer)?,
        };
        self.data(text, &json)
    }
}

/// Names that clients chose must not control the terminal.
fn printable(text: &str) -> String {
    let controls = |letter: char| letter.is_control() && letter != '\n';
    text.replace(controls, "\u{fffd}")
}
