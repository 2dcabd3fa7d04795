//! What consoles show, as JSON: of one coordinator, and of all together.

mod description;
pub(crate) mod elsewhere;
mod graph;
mod history;
pub(crate) mod json;
mod page;

pub(crate) use self::page::{PAGES, Page};
