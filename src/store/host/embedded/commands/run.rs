//! Runs one command, under the rules that hold for commands of a script or for those from outside.

use std::fmt::Write as _;

use super::{
    super::{
        engine::Engine,
        reply::{Refusal, Reply},
    },
    command::Command,
    table::find,
};

/// Runs a command as a client sends it.
pub(in super::super) fn run(engine: &mut Engine, line: &[&[u8]]) -> Result<Reply, Refusal> {
    let Some((name, arguments)) = line.split_first() else {
        return Err(Refusal::new("ERR empty command"));
    };
    let command = find(name).ok_or_else(|| unknown(name, arguments))?;
    if !command.takes(line.len()) {
        return Err(Refusal::wrong_arguments(command.name));
    }
    engine.begin();
    run_checked(engine, command, arguments)
}

/// Runs a command that a script calls.
pub(in super::super) fn run_in_script(
    engine: &mut Engine,
    line: &[&[u8]],
) -> Result<Reply, Refusal> {
    const NOTHING: Refusal =
        Refusal::new("ERR Please specify at least one argument for this redis lib call");
    const UNKNOWN: Refusal = Refusal::new("ERR Unknown Redis command called from script");
    const WRONG_NUMBER: Refusal =
        Refusal::new("ERR Wrong number of args calling Redis command from script");
    let (name, arguments) = line.split_first().ok_or(NOTHING)?;
    let command = find(name).ok_or(UNKNOWN)?;
    if !command.takes(line.len()) {
        return Err(WRONG_NUMBER);
    }
    run_checked(engine, command, arguments)
}

/// Runs a command whose number of arguments has been checked.
pub(in super::super) fn run_checked(
    engine: &mut Engine,
    command: &Command,
    arguments: &[&[u8]],
) -> Result<Reply, Refusal> {
    engine.admit(command.needs_memory(), command.writes())?;
    (command.run)(engine, arguments)
}

fn unknown(name: &[u8], arguments: &[&[u8]]) -> Refusal {
    const SHOWN_MAX: usize = 128;
    let show = |text: &[u8], max: usize| {
        String::from_utf8_lossy(&text[..text.len().min(max)]).into_owned()
    };
    let mut shown = String::new();
    for argument in arguments {
        if shown.len() >= SHOWN_MAX {
            break;
        }
        let _ = write!(shown, "'{}' ", show(argument, SHOWN_MAX - shown.len()));
    }
    let name = show(name, SHOWN_MAX);
    Refusal(format!("ERR unknown command '{name}', with args beginning with: {shown}").into())
}

#[cfg(test)]
mod tests {
    use super::{super::super::clock::Clock, *};

    fn run(engine: &mut Engine, line: &str) -> Result<Reply, String> {
        let line: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        super::run(engine, &line).map_err(|refusal| refusal.to_string())
    }

    fn run_in_script(engine: &mut Engine, line: &str) -> Result<Reply, String> {
        let line: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        super::run_in_script(engine, &line).map_err(|refusal| refusal.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_command_is_refused_in_the_words_of_the_place() {
        let mut engine = Engine::new(Clock::starting_at(0));
        assert_eq!(
            run(&mut engine, "foo a b").unwrap_err(),
            "ERR unknown command 'foo', with args beginning with: 'a' 'b' "
        );
        assert_eq!(
            run(&mut engine, "GET").unwrap_err(),
            "ERR wrong number of arguments for 'get' command"
        );
        assert_eq!(
            run_in_script(&mut engine, "foo").unwrap_err(),
            "ERR Unknown Redis command called from script"
        );
        assert_eq!(
            run_in_script(&mut engine, "get").unwrap_err(),
            "ERR Wrong number of args calling Redis command from script"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn out_of_memory_refuses_only_a_first_write() {
        let mut engine = Engine::new(Clock::starting_at(0));
        run(&mut engine, "set a 1").unwrap();
        engine.out_of_memory = true;
        let refusal = Refusal::OUT_OF_MEMORY.to_string();
        for line in [
            "set a 2",
            "hset h f v",
            "hincrby h f 1",
            "rpush l x",
            "zadd z 1 m",
            "incrby a 1",
        ] {
            assert_eq!(run(&mut engine, line).unwrap_err(), refusal, "{line}");
        }
        engine.begin();
        assert!(run_in_script(&mut engine, "get a").is_ok());
        assert!(run_in_script(&mut engine, "publish c m").is_ok());
        assert_eq!(run_in_script(&mut engine, "set a 2").unwrap_err(), refusal);
        assert!(
            run_in_script(&mut engine, "del nothing").is_ok(),
            "frees memory"
        );
        assert_eq!(run_in_script(&mut engine, "set a 2").unwrap(), Reply::OK);
        assert!(run(&mut engine, "del a").is_ok());
        assert_eq!(
            run(&mut engine, "set a 2").unwrap_err(),
            refusal,
            "each command is a first"
        );
    }
}
