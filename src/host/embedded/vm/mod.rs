//! The Lua machine that runs scripts as Redis does: PUC Lua 5.1 over an engine.

mod convert;
mod sandbox;

use std::collections::HashMap;

use mlua::{Either, Error, Function, Lua, LuaOptions, LuaString, StdLib, Table, Value as LuaValue};

use super::{engine::Engine, reply::Refusal};
use crate::host::{Call, HostError, Script, Value};

/// A machine and the engine that its scripts work on.
#[derive(Debug)]
pub(super) struct Vm {
    lua: Lua,
    /// What scripts see: empty, so that every write to it is noticed. Reads go to `globals`.
    environment: Table,
    globals: Table,
    run: Function,
    explain: Function,
    /// By the address of the script, which is static.
    compiled: HashMap<usize, Function>,
}

/// The name by which Redis calls a script in its error texts.
const CHUNK: &str = "@user_script";

// === impl Vm ===

impl Vm {
    /// A machine that has run nothing yet.
    pub(super) fn new(engine: Engine) -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        lua.set_app_data(engine);
        let explain = lua.create_function(|lua, error: LuaValue| sandbox::explain(lua, &error))?;
        let run: Function = lua.globals().get("xpcall")?;
        let globals = sandbox::globals(&lua)?;
        let environment = sandbox::frozen(&lua, &globals)?;
        Ok(Self {
            lua,
            environment,
            globals,
            run,
            explain,
            compiled: HashMap::new(),
        })
    }

    /// Runs something on the engine, outside of any script.
    pub(super) fn with_engine<R>(&self, work: impl FnOnce(&mut Engine) -> R) -> R {
        let mut engine = self.lua.app_data_mut::<Engine>();
        work(
            engine
                .as_mut()
                .expect("the machine has an engine from its start"),
        )
    }

    /// Runs a script to its end.
    pub(super) fn eval(&mut self, call: &Call) -> Result<Value, HostError> {
        self.with_engine(Engine::begin);
        let function = self.compiled(call.script)?;
        let (ok, result) = self.run(&function, call).map_err(|error| broken(&error))?;
        if ok {
            return convert::from_lua(&result).map_err(HostError::from);
        }
        Err(failure(call.script, &result).unwrap_or_else(|error| broken(&error)))
    }

    fn compiled(&mut self, script: &'static Script) -> Result<Function, HostError> {
        let address = std::ptr::from_ref(script).addr();
        if let Some(function) = self.compiled.get(&address) {
            return Ok(function.clone());
        }
        let chunk = self.lua.load(script.source).set_name(CHUNK);
        let function = chunk
            .set_environment(self.environment.clone())
            .into_function();
        let function = function.map_err(|error| HostError::Rejected {
            code: "ERR".to_owned(),
            message: format!(
                "Error compiling script (new function): {}",
                sandbox::innermost(&error)
            ),
        })?;
        self.compiled.insert(address, function.clone());
        Ok(function)
    }

    fn run(&self, function: &Function, call: &Call) -> mlua::Result<(bool, LuaValue)> {
        for (name, words) in [("KEYS", &call.keys), ("ARGV", &call.args)] {
            // Text reaches the table in half the time that bytes need.
            let words = words.iter().map(|word| match str::from_utf8(word) {
                Ok(text) => Either::Left(text),
                Err(_) => Either::Right(LuaString::wrap(word)),
            });
            self.globals
                .raw_set(name, self.lua.create_sequence_from(words)?)?;
        }
        self.run.call((function, &self.explain))
    }
}

/// The reply to a script that raised an error, from what [`sandbox::explain`] made of it.
fn failure(script: &Script, result: &LuaValue) -> mlua::Result<HostError> {
    let LuaValue::Table(table) = result else {
        return Err(Error::runtime(format!(
            "{} ended without a reason",
            script.name
        )));
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

#[cfg(test)]
mod tests;
