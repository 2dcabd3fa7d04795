//! Runs one command on the keyspace, under the rules that hold for commands of a script or for
//! those from outside.

use std::fmt::Write as _;

use super::{
    clock::Clock,
    commands::{self, Command},
    keyspace::Keyspace,
    pubsub::PubSub,
    reply::{Refusal, Reply},
};

/// Everything that commands see and change.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) clock: Clock,
    pub(super) keys: Keyspace,
    pub(super) pubsub: PubSub,
    pub(super) out_of_memory: bool,
    now_micros: i64,
    /// Whether the script that runs has written. From then on memory no longer matters: stopping
    /// midway would be worse than using more.
    script_has_written: bool,
}

// === impl Engine ===

impl Engine {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            keys: Keyspace::default(),
            pubsub: PubSub::default(),
            out_of_memory: false,
            now_micros: 0,
            script_has_written: false,
        }
    }

    /// Takes the time at which everything until the next call of this happens.
    pub(super) fn begin(&mut self) {
        self.now_micros = self.clock.now_micros();
        self.keys.set_now(self.now_micros.div_euclid(1000));
        self.script_has_written = false;
    }

    pub(super) fn now_micros(&self) -> i64 {
        self.now_micros
    }

    /// Runs a command as a client sends it.
    pub(super) fn run(&mut self, line: &[&[u8]]) -> Result<Reply, Refusal> {
        let Some((name, arguments)) = line.split_first() else {
            return Err(Refusal::new("ERR empty command"));
        };
        let command = commands::find(name).ok_or_else(|| unknown(name, arguments))?;
        if !command.takes(line.len()) {
            return Err(Refusal::wrong_arguments(command.name));
        }
        self.begin();
        self.run_checked(command, arguments)
    }

    /// Runs a command that a script calls.
    pub(super) fn run_in_script(&mut self, line: &[&[u8]]) -> Result<Reply, Refusal> {
        const NOTHING: Refusal =
            Refusal::new("ERR Please specify at least one argument for this redis lib call");
        const UNKNOWN: Refusal = Refusal::new("ERR Unknown Redis command called from script");
        const WRONG_NUMBER: Refusal =
            Refusal::new("ERR Wrong number of args calling Redis command from script");
        let (name, arguments) = line.split_first().ok_or(NOTHING)?;
        let command = commands::find(name).ok_or(UNKNOWN)?;
        if !command.takes(line.len()) {
            return Err(WRONG_NUMBER);
        }
        self.run_checked(command, arguments)
    }

    /// Runs a command whose number of arguments has been checked.
    pub(super) fn run_checked(
        &mut self,
        command: &Command,
        arguments: &[&[u8]],
    ) -> Result<Reply, Refusal> {
        if self.out_of_memory && command.needs_memory() && !self.script_has_written {
            return Err(Refusal::OUT_OF_MEMORY);
        }
        // A write that fails or finds nothing to do counts as one, as it does for Redis.
        self.script_has_written |= command.writes();
        (command.run)(self, arguments)
    }
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
    use super::*;

    fn run(engine: &mut Engine, line: &str) -> Result<Reply, String> {
        let line: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        engine.run(&line).map_err(|refusal| refusal.to_string())
    }

    fn run_in_script(engine: &mut Engine, line: &str) -> Result<Reply, String> {
        let line: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        engine
            .run_in_script(&line)
            .map_err(|refusal| refusal.to_string())
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
            "incr a",
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
