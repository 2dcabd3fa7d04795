//! Why credentials or files are refused.

use std::path::PathBuf;

/// Missing or invalid credentials. The reason is for the caller and never contains them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unauthenticated(pub String);

/// An unusable file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", file.display())]
pub struct Unusable {
    /// Which file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}
