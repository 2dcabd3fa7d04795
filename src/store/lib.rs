//! Where locks are. [`script`] is the typed face of the Lua scripts in `lua/`, [`host`] runs them:
//! on Redis, or in memory.

pub mod host;
pub mod script;
