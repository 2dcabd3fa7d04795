//! The command line: a client of the public gRPC API, and the flags of `serve`.

pub mod args;
mod bench;
mod client;
mod commands;
pub mod exit;
mod failure;
mod json;
mod output;
mod run;

use std::{num::NonZeroUsize, process::ExitCode};

use clap::Parser as _;
use tokio::runtime::Builder;

pub use self::args::Command;
use self::args::{Cli, ClientCommand};
use crate::threads;

/// Reads the process's arguments. Fails with the exit code of a process that has said what is wrong, or has shown its help.
pub fn parse() -> Result<Command, ExitCode> {
    Cli::try_parse().map(|cli| cli.command).map_err(|error| {
        // Nothing is left to be told if the terminal is gone.
        let _ = error.print();
        ExitCode::from(if error.use_stderr() {
            exit::USAGE
        } else {
            exit::OK
        })
    })
}

/// The runtime for a client command: what waits for one answer needs no threads, what makes load does.
pub fn runtime(command: &ClientCommand) -> Builder {
    let ClientCommand::Bench(args) = command else {
        return Builder::new_current_thread();
    };
    let threads = args.threads.map(NonZeroUsize::get);
    threads::runtime(threads.unwrap_or_else(|| threads::half_of(threads::cores())))
}

/// Runs a client command and returns the process's exit code.
pub async fn execute(command: ClientCommand) -> ExitCode {
    let ended = match command {
        ClientCommand::Run(args) => return run::run(args).await.into(),
        ClientCommand::Acquire(args) => commands::acquire(args).await,
        ClientCommand::TryAcquire(args) => commands::try_acquire(args).await,
        ClientCommand::Release(args) => commands::release(args).await,
        ClientCommand::Renew(args) => commands::renew(args).await,
        ClientCommand::AcquireAll(args) => commands::acquire_all(args).await,
        ClientCommand::TryAcquireAll(args) => commands::try_acquire_all(args).await,
        ClientCommand::ReleaseAll(args) => commands::release_all(args).await,
        ClientCommand::Semaphore(command) => commands::semaphore(command).await,
        ClientCommand::Latch(command) => commands::latch(command).await,
        ClientCommand::Describe(args) => commands::describe(args).await,
        ClientCommand::CheckToken(args) => commands::check_token(args).await,
        ClientCommand::List(args) => commands::list(args).await,
        ClientCommand::Sessions(args) => commands::sessions(args).await,
        ClientCommand::Watch(args) => commands::watch(args).await,
        ClientCommand::ForceRelease(args) => commands::force_release(args).await,
        ClientCommand::Bench(args) => bench::bench(*args).await,
    };
    let code = ended.unwrap_or_else(|failure| {
        output::say(&failure.message);
        failure.exit
    });
    code.into()
}

/// Prints a whole document, such as the settings. Fails if nobody reads it.
pub fn print(text: &str) -> std::io::Result<()> {
    output::print(text)
}

/// Tells the user something on stderr.
pub fn say(message: &str) {
    output::say(message);
}
