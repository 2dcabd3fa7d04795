//! The typed face of `lua/`.

pub mod catalog;
