//! Scripts in an in-process Lua VM.
