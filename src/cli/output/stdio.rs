//! The only file of the command line that writes to stdout and stderr.

use std::io::{self, Write as _};

/// Prints to stdout. Fails if that is closed.
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Prints a message to stderr. If stderr is closed the message is dropped.
pub fn say(message: &str) {
    let _ = writeln!(io::stderr().lock(), "lockkeeper: {message}");
}

/// Prints an error to stderr as one line of JSON, likewise.
pub(crate) fn say_json(error: &serde_json::Value) {
    let _ = writeln!(io::stderr().lock(), "{error}");
}
