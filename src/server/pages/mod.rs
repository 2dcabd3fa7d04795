//! What consoles show, as JSON: of one coordinator, and of all together.

mod description;
pub(crate) mod elsewhere;
mod exposition;
mod graph;
mod history;
pub(crate) mod json;
mod local;
mod overview;
mod page;
mod samples;
mod together;

pub use self::samples::Samples;
pub(crate) use self::{
    exposition::without_exemplar,
    local::Local,
    page::{PAGES, Page},
};
