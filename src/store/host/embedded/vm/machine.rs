//! The machine: scripts in, replies out.

use std::{collections::HashMap, sync::Arc};

use mlua::{
    Error, Function, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value as LuaValue,
    Variadic,
    state::{GcIncParams, GcMode},
};
use parking_lot::Mutex;

use super::{
    super::{engine::Engine, reply::Refusal},
    CHUNK, SharedEngine, convert, glue, sandbox,
};
use crate::host::{Call, HostError, Script, Value};

/// A machine and the engine that its scripts work on.
#[derive(Debug)]
pub(in super::super) struct Vm {
    lua: Lua,
    engine: SharedEngine,
    /// What scripts see: empty, so that every write to it is noticed.
    environment: Table,
    /// Runs a script with tables of its keys and arguments.
    run: Function,
    /// Runs a script with its keys and arguments one after the other.
    run_with: Function,
    /// By the address of the script, which is static.
    compiled: HashMap<usize, Function>,
}

/// How a script ended, as `glue.rs` says it.
const FAILED: i64 = 0;
const ONE_REPLY: i64 = 1;

/// More keys or arguments than these go to a script in tables.
const KEYS_MAX: usize = 7;
const ARGS_MAX: usize = 32;

/// The garbage collector waits until the memory in use is this percentage of what the last
/// collection left, which is little.
const GC_PAUSE: i32 = 400;

// === impl Vm ===

impl Vm {
    /// A machine that has run nothing yet.
    pub(in super::super) fn new(engine: Engine) -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(GC_PAUSE)));
        let engine = Arc::new(Mutex::new(engine));
        let [run, run_with, caller] = glue::functions(&lua)?;
        let globals = sandbox::globals(&lua, &engine, &caller)?;
        let environment = sandbox::frozen(&lua, &globals)?;
        Ok(Self {
            lua,
            engine,
            environment,
            run,
            run_with,
            compiled: HashMap::new(),
        })
    }

    /// Runs something on the engine, outside of any script.
    pub(in super::super) fn with_engine<R>(&self, work: impl FnOnce(&mut Engine) -> R) -> R {
        work(&mut self.engine.lock())
    }

    /// Runs a script to its end.
    pub(in super::super) fn eval(&mut self, call: &Call) -> Result<Value, HostError> {
        self.with_engine(Engine::begin);
        let address = std::ptr::from_ref(call.script).addr();
        let ran = if let Some(function) = self.compiled.get(&address) {
            self.run(function, call)
        } else {
            let function = self.compile(call.script)?;
            let ran = self.run(&function, call);
            self.compiled.insert(address, function);
            ran
        };
        let (ended, mut reply) = ran.map_err(|error| broken(&error))?;
        if ended == FAILED {
            let raised = reply.pop_front().unwrap_or(LuaValue::Nil);
            return Err(failure(call.script, &raised).unwrap_or_else(|error| broken(&error)));
        }
        let reply = if ended == ONE_REPLY {
            convert::from_lua(&reply.pop_front().unwrap_or(LuaValue::Nil))
        } else {
            convert::items_from_lua(&reply)
        };
        reply.map_err(HostError::from)
    }

    /// The script as a function of its keys and arguments, whose helpers have been made already.
    fn compile(&self, script: &Script) -> Result<Function, HostError> {
        let (helpers, body) = script.parts();
        // On one line, so that the lines of errors are those of the script.
        let shortcuts = sandbox::shortcuts();
        let source = format!("{shortcuts}{helpers}return function(KEYS, ARGV) {body}\nend");
        let chunk = self.lua.load(source).set_name(CHUNK);
        let made = chunk.set_environment(self.environment.clone()).call(());
        made.map_err(|error| HostError::Rejected {
            code: "ERR".to_owned(),
            message: format!(
                "Error compiling script (new function): {}",
                sandbox::innermost(&error)
            ),
        })
    }

    fn run(&self, function: &Function, call: &Call) -> mlua::Result<(i64, MultiValue)> {
        let words = call.keys.iter().chain(&call.args);
        if call.keys.len() <= KEYS_MAX && call.args.len() <= ARGS_MAX {
            // Only text gets to the machine without being copied once more.
            let words: Result<Vec<&str>, _> = words.map(|word| str::from_utf8(word)).collect();
            if let Ok(words) = words {
                let words = Variadic::from(words);
                return self.run_with.call((function, call.keys.len(), words));
            }
        }
        let [keys, args] = [&call.keys, &call.args].map(|words| {
            self.lua
                .create_sequence_from(words.iter().map(LuaString::wrap))
        });
        self.run.call((function, keys?, args?))
    }
}

/// The reply to a script that raised an error, from what [`sandbox::explain`] made of it.
fn failure(script: &Script, result: &LuaValue) -> mlua::Result<HostError> {
    let LuaValue::Table(table) = result else {
        // There was no room for an explanation.
        let text = result.to_string()?;
        return Ok(Refusal(format!("ERR {text} script: {}", script.sha1()).into()).into());
    };
    let text: LuaString = table.raw_get("err")?;
    let text = text.to_string_lossy();
    let line: Option<usize> = table.raw_get("line")?;
    let text = match line {
        Some(line) => format!("{text} script: {}, on {CHUNK}:{line}.", script.sha1()),
        None => text,
    };
    Ok(Refusal(text.into()).into())
}

/// The machine itself failed, which no script should be able to bring about.
fn broken(error: &Error) -> HostError {
    HostError::Rejected {
        code: "ERR".to_owned(),
        message: error.to_string(),
    }
}
