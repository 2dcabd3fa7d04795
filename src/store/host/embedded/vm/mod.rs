//! The Lua machine that runs scripts as Redis does: Lua 5.1 (`LuaJIT`'s interpreter) over an
//! engine.

mod convert;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod glue;
#[cfg(test)]
mod glue_tests;
mod machine;
mod sandbox;
mod short;
#[cfg(test)]
mod tests;

pub(super) use machine::Vm;

use std::sync::Arc;

use parking_lot::Mutex;

use super::engine::Engine;

/// Scripts get at the engine while they run, and nothing else does then: the machine's owner has
/// both.
type SharedEngine = Arc<Mutex<Engine>>;

/// The name by which Redis calls a script in its error texts.
const CHUNK: &str = "@user_script";
