//! The surface: proto in, proto out.

pub mod pb;
