//! `lockkeeper run`: holds a lock while a command runs. The client library has the session;
//! [`machine`] decides what it means for the command; [`io`] does it.

mod child;
mod hold;
mod io;
mod machine;
mod messages;
mod signals;
mod target;
mod terminal;
mod timing;

use std::{collections::VecDeque, env, time::Duration};

use tokio::time::Instant;

use self::{
    io::Io,
    machine::{Action, Machine, Plan},
    signals::Signals,
    target::RunTarget,
    terminal::block_stops,
};
use super::{args::RunArgs, exit, output};

/// Returns the exit code of the process.
pub(super) async fn run(args: RunArgs) -> u8 {
    block_stops();
    let signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            output::say(&format!("signals cannot be handled: {error}"));
            return exit::INTERNAL;
        }
    };
    let client = match args.how.server.client() {
        Ok(client) => client,
        Err(error) => {
            output::say(&error.to_string());
            return exit::USAGE;
        }
    };
    let (mut machine, actions) = Machine::new(plan(&args), Instant::now());
    let mut io = Io::new(args, client, signals);
    let mut actions = VecDeque::from(actions);
    loop {
        while let Some(action) = actions.pop_front() {
            if let Action::Exit(code) = action {
                io.flush().await;
                return code;
            }
            if let Some(input) = io.perform(action) {
                actions.extend(machine.on(Instant::now(), io.valid_until(), input));
            }
        }
        let input = io.next(machine.wake_at()).await;
        actions.extend(machine.on(Instant::now(), io.valid_until(), input));
    }
}

fn plan(args: &RunArgs) -> Plan {
    let how = &args.how;
    let no_wait = how.no_wait.then_some(Duration::ZERO);
    Plan {
        target: RunTarget::new(args),
        wait: no_wait.or(how.wait),
        kill_after: how.kill_after,
        conflict_exit_code: how.conflict_exit_code,
        on_yield: how.on_yield,
        is_nested: args.permits.is_none()
            && env::var("LOCKKEEPER_LOCK").is_ok_and(|it| it == args.name),
    }
}
