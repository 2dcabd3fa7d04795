use bytes::Bytes;

use super::{super::engine::Engine, Vm};
use crate::host::{Call, HostError, Script, Value, embedded::clock::Clock, words};

pub(super) fn machine() -> Vm {
    Vm::new(Engine::new(Clock::starting_at(1_000_000))).unwrap()
}

/// Runs a script that is made for one test; scripts live as long as the process.
fn eval(vm: &mut Vm, source: &'static str, args: &[&'static [u8]]) -> Result<Value, HostError> {
    let script = Box::leak(Box::new(Script::new("test", source)));
    vm.eval(&Call {
        script,
        keys: words!["key"],
        args: args.iter().collect(),
    })
}

pub(super) fn value(source: &'static str) -> Value {
    eval(&mut machine(), source, &[]).unwrap()
}

/// The error reply of a script, without the hash that Redis adds.
fn refusal(source: &'static str) -> String {
    match eval(&mut machine(), source, &[]).unwrap_err() {
        HostError::Rejected { code, message } => {
            let message = message
                .split(" script: ")
                .next()
                .unwrap_or_default()
                .to_owned();
            format!("{code}|{message}")
        }
        other => panic!("{other}"),
    }
}

pub(super) fn text(text: &'static str) -> Value {
    Value::Bytes(Bytes::from(text))
}

#[tokio::test(start_paused = true)]
async fn replies_are_converted_as_redis_does() {
    for (source, expected) in [
        ("return", Value::Nil),
        ("return false", Value::Nil),
        ("return true", Value::Int(1)),
        ("return 3.9", Value::Int(3)),
        ("return -3.9", Value::Int(-3)),
        ("return 1 / 0", Value::Int(i64::MIN)),
        ("return 0 / 0", Value::Int(i64::MIN)),
        ("return 'x'", text("x")),
        ("return {ok = 'fine'}", text("fine")),
        ("return redis.status_reply('fine')", text("fine")),
        ("return function() end", Value::Nil),
        ("return {}", Value::Array(Vec::new())),
        ("return {1, nil, 3}", Value::Array(vec![Value::Int(1)])),
        (
            "return {1, {'a', false, true}}",
            Value::Array(vec![
                Value::Int(1),
                Value::Array(vec![text("a"), Value::Nil, Value::Int(1)]),
            ]),
        ),
    ] {
        assert_eq!(value(source), expected, "{source}");
    }
}

#[tokio::test(start_paused = true)]
async fn scripts_see_replies_as_redis_shows_them() {
    for (source, expected) in [
        ("return tostring(redis.call('get', 'none'))", "false"),
        (
            "return tostring(redis.call('hmget', 'none', 'f')[1])",
            "false",
        ),
        ("return redis.call('set', 'a', 'b').ok", "OK"),
        ("return type(redis.call('exists', 'a'))", "number"),
        ("return tostring(redis.call('publish', 'c', 'm'))", "0"),
        (
            "redis.call('set', 'a', 0.1) return redis.call('get', 'a')",
            "0.10000000000000001",
        ),
        (
            "redis.call('set', 'a', 1e20) return redis.call('get', 'a')",
            "1e+20",
        ),
        (
            "redis.call('set', 'a', 2^53) return redis.call('get', 'a')",
            "9007199254740992",
        ),
        (
            "return redis.pcall('get').err",
            "ERR Wrong number of args calling Redis command from script",
        ),
        (
            "local ok, text = pcall(redis.call, 'foo') return text",
            "ERR Unknown Redis command called from script",
        ),
        (
            "local ok, text = pcall(error, 'x', 0) return tostring(ok) .. text",
            "falsex",
        ),
        (
            "local ok, a, b = pcall(function() return 1, 2 end) return tostring(ok) .. a .. b",
            "true12",
        ),
    ] {
        assert_eq!(value(source), text(expected), "{source}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_have_the_code_and_text_of_redis() {
    for (source, expected) in [
        (
            "redis.call('set', 'a', 'b') return redis.call('hget', 'a', 'f')",
            "WRONGTYPE|Operation against a key holding the wrong kind of value",
        ),
        (
            "return redis.call('foo')",
            "ERR|Unknown Redis command called from script",
        ),
        (
            "return redis.call()",
            "ERR|Please specify at least one argument for this redis lib call",
        ),
        (
            "return redis.call('get', nil)",
            "ERR|Lua redis lib command arguments must be strings or integers",
        ),
        (
            "return redis.call('get', {})",
            "ERR|Lua redis lib command arguments must be strings or integers",
        ),
        ("return redis.error_reply('MY error')", "MY|error"),
        ("return redis.error_reply('-MY error')", "MY|error"),
        ("return redis.error_reply('x')", "ERR|x"),
        (
            "return redis.error_reply(1)",
            "ERR|wrong number or type of arguments",
        ),
        ("return {err = 'CODE text\\nmore'}", "CODE|text more"),
        ("error('x')", "ERR|user_script:1: x"),
        ("error({err = 'CODE text'})", "CODE|text"),
        (
            "return nil + 1",
            "ERR|user_script:1: attempt to perform arithmetic on a nil value",
        ),
        (
            "return xx",
            "ERR|user_script:1: Script attempted to access nonexistent global variable 'xx'",
        ),
        (
            "xx = 1",
            "ERR|user_script:1: Attempt to modify a readonly table",
        ),
        (
            "redis.call = 1",
            "ERR|user_script:1: Attempt to modify a readonly table",
        ),
        (
            "string.sub = 1",
            "ERR|user_script:1: Attempt to modify a readonly table",
        ),
        (
            "local t = {} t[1] = t return t",
            "ERR|reached lua stack limit",
        ),
        (
            "not a script",
            "ERR|Error compiling script (new function): \
             user_script:1: unexpected symbol near 'not'",
        ),
    ] {
        assert_eq!(refusal(source), expected, "{source}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_uncaught_error_names_the_script_and_the_line() {
    static SCRIPT: Script = Script::new("test", "\nlocal reply = redis.call('foo') return reply");
    let call = Call {
        script: &SCRIPT,
        keys: words![],
        args: words![],
    };
    let HostError::Rejected { message, .. } = machine().eval(&call).unwrap_err() else {
        panic!("an unknown command is refused");
    };
    let place = format!(" script: {}, on @user_script:2.", SCRIPT.sha1());
    assert!(message.ends_with(&place), "{message}");
}

#[tokio::test(start_paused = true)]
async fn nothing_reaches_around_the_sandbox() {
    for name in [
        "os",
        "io",
        "require",
        "loadfile",
        "dofile",
        "load",
        "loadstring",
        "debug",
        "package",
        "getfenv",
        "setfenv",
        "print",
        "pairs",
        "next",
        "_G",
    ] {
        let source = format!("return {name}");
        let error = eval(&mut machine(), source.leak(), &[]).unwrap_err();
        assert!(
            error.to_string().contains("nonexistent global variable"),
            "{name}: {error}"
        );
    }
    assert_eq!(value("return type(math.random)"), text("nil"));
}

#[tokio::test(start_paused = true)]
async fn strings_are_bytes() {
    let mut vm = machine();
    let source =
        "redis.call('set', KEYS[1], ARGV[1]) return {redis.call('get', KEYS[1]), #ARGV[1]}";
    let reply = eval(&mut vm, source, &[b"\x00\xff\r\n"]).unwrap();
    let bytes = Value::Bytes(Bytes::from_static(b"\x00\xff\r\n"));
    assert_eq!(reply, Value::Array(vec![bytes, Value::Int(4)]));
}

#[tokio::test(start_paused = true)]
async fn arguments_of_one_call_do_not_reach_the_next() {
    let mut vm = machine();
    let source = "ARGV[3] = 'mine' return #ARGV";
    assert_eq!(eval(&mut vm, source, &[b"a", b"b"]).unwrap(), Value::Int(3));
    assert_eq!(
        eval(&mut vm, "return #ARGV", &[b"a"]).unwrap(),
        Value::Int(1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_script_leaves_the_machine_usable() {
    let mut vm = machine();
    let endless = "local function f() return 1 + f() end return f()";
    assert!(eval(&mut vm, endless, &[]).is_err());
    assert!(eval(&mut vm, "redis.call('set', 'a', 1) error('x')", &[]).is_err());
    assert_eq!(
        eval(&mut vm, "return redis.call('get', 'a')", &[]).unwrap(),
        text("1")
    );
}

#[tokio::test(start_paused = true)]
async fn out_of_memory_is_an_error_of_its_own() {
    let mut vm = machine();
    vm.with_engine(|engine| engine.out_of_memory = true);
    let oom = "OOM command not allowed when used memory > 'maxmemory'.";
    let set = "return redis.call('set', KEYS[1], 1)";
    assert_eq!(eval(&mut vm, set, &[]).unwrap_err(), HostError::OutOfMemory);
    let caught = "return redis.pcall('set', KEYS[1], 1).err";
    assert_eq!(eval(&mut vm, caught, &[]).unwrap(), text(oom));
    let freed = "redis.call('del', 'none') return redis.call('set', KEYS[1], 1)";
    assert_eq!(eval(&mut vm, freed, &[]).unwrap(), text("OK"));
}
