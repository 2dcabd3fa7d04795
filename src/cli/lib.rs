//! The commands that are clients of the public gRPC API.

pub mod args;
pub mod client;
mod commands;
mod contexts;
pub mod exit;
pub mod failure;
pub mod output;
mod run;

use std::process::ExitCode;

use self::args::ClientCommand;

pub use self::{
    commands::{Grpc, Own},
    output::{print, say},
};

/// Runs a client command, whose errors have this form; returns the process's exit code. `health`
/// asks the coordinator of this container, if there is one and no other address is given.
pub async fn execute(
    command: ClientCommand,
    format: output::Format,
    own: fn() -> Option<Own>,
) -> ExitCode {
    let ended = match command {
        ClientCommand::Run(args) => return run::run(args).await.into(),
        ClientCommand::Elect(args) => return run::run(args.into()).await.into(),
        ClientCommand::Acquire(args) => commands::acquire(args).await,
        ClientCommand::TryAcquire(args) => commands::try_acquire(args).await,
        ClientCommand::Wait(args) => commands::await_free(args).await,
        ClientCommand::Release(args) => commands::release(args).await,
        ClientCommand::Renew(args) => commands::renew(args).await,
        ClientCommand::AcquireAll(args) => commands::acquire_all(args).await,
        ClientCommand::TryAcquireAll(args) => commands::try_acquire_all(args).await,
        ClientCommand::ReleaseAll(args) => commands::release_all(args).await,
        ClientCommand::Semaphore(command) => commands::semaphore(command).await,
        ClientCommand::Latch(command) => commands::latch(command).await,
        ClientCommand::Election(command) => commands::election(command).await,
        ClientCommand::Describe(args) => commands::describe(args).await,
        ClientCommand::Why(args) => commands::why(args).await,
        ClientCommand::CheckToken(args) => commands::check_token(args).await,
        ClientCommand::Yield(args) => commands::request_yield(args).await,
        ClientCommand::List(args) => commands::list(args).await,
        ClientCommand::Top(args) => commands::top(args).await,
        ClientCommand::Coordinators(args) => commands::coordinators(args).await,
        ClientCommand::Sessions(args) => commands::sessions(args).await,
        ClientCommand::Watch(args) => commands::watch(args).await,
        ClientCommand::ForceRelease(args) => commands::force_release(args).await,
        ClientCommand::EndSession(args) => commands::end_session(args).await,
        ClientCommand::Health(server) => {
            let own = server.is_default().then(own).flatten();
            commands::health(server, own).await
        }
        ClientCommand::Context(command) => commands::context(command),
    };
    self::ended(ended, format)
}

/// The exit code of a command. A failure is printed on stderr, in this form.
pub fn ended(ended: Result<u8, failure::Failure>, format: output::Format) -> ExitCode {
    let code = ended.unwrap_or_else(|failure| {
        match format {
            // The reader of stdout has read enough.
            _ if failure.message.is_empty() => {}
            output::Format::Text => output::say(&failure.message),
            output::Format::Json => output::say_json(&failure.to_json()),
        }
        failure.exit
    });
    code.into()
}
