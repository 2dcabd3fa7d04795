//! What a quorum decides by functions of values, for `model/`.

pub use super::quorum::modelling::{elected, shown_by};
