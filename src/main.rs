//! The process: parses the command line, builds a runtime, returns the exit code.

mod args;
mod own;

use std::{process::ExitCode, time::Duration};

use lockkeeper_base::{busy_poll, tasks::spawn_detached, threads};
use lockkeeper_cli::{self as cli, exit, output::Format};
use lockkeeper_server::{self as server, config, telemetry};
use tokio::runtime::{Builder, Runtime};

use crate::args::{Cli, Command, ServeArgs};

fn main() -> ExitCode {
    // Dependencies link two providers, and rustls does not choose between them.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        cli::say("a provider of cryptography is installed already");
        return exit::INTERNAL.into();
    }
    match parse() {
        Ok((Command::Serve(args), _)) => serve(&args),
        Ok((Command::Client(command), format)) => on_runtime(
            Builder::new_current_thread(),
            cli::execute(*command, format, own::coordinator),
        ),
        Ok((Command::Bench(args), _)) => on_runtime(
            lockkeeper_bench::runtime(&args),
            lockkeeper_bench::execute(*args),
        ),
        Ok((Command::Completions { shell }, _)) => printed(&Cli::completions(shell)),
        Ok((Command::Version, _)) => printed(&Cli::version()),
        Ok((Command::Man { folder }, _)) => match Cli::write_manual(&folder) {
            Ok(()) => exit::OK.into(),
            Err(error) => {
                cli::say(&format!("{}: {error}", folder.display()));
                exit::USAGE.into()
            }
        },
        Err(code) => code,
    }
}

/// Parses the process's arguments. Fails with an exit code once an error or help is printed.
fn parse() -> Result<(Command, Format), ExitCode> {
    Cli::read().map_err(|error| {
        // If the terminal is gone the message is dropped.
        let _ = error.print();
        ExitCode::from(if error.use_stderr() {
            exit::USAGE
        } else {
            exit::OK
        })
    })
}

/// Prints a whole document.
fn printed(document: &str) -> ExitCode {
    match cli::print(document) {
        Ok(()) => exit::OK.into(),
        Err(_) => exit::INTERNAL.into(),
    }
}

fn serve(args: &ServeArgs) -> ExitCode {
    let sources = args.sources();
    let settings = match sources.load() {
        Ok(settings) => settings,
        Err(refused) => {
            for problem in refused.to_string().lines() {
                cli::say(problem);
            }
            return exit::CONFIG.into();
        }
    };
    if args.print_config {
        return printed(&settings.to_redacted_toml());
    }
    on_runtime(runtime(&settings.server), async {
        spawn_detached("allocator", give_memory_back());
        let sending = match telemetry::init(&settings.log, &settings.audit, &settings.telemetry) {
            Ok(sending) => sending,
            Err(error) => {
                cli::say(&error.to_string());
                return exit::CONFIG.into();
            }
        };
        sources.warn_of_exposed();
        sources.warn_of_ignored();
        let commit = env!("LOCKKEEPER_COMMIT");
        let served = server::run(sources, settings, commit, sending.lost_lines()).await;
        sending.finish().await;
        match served {
            Ok(()) => exit::OK.into(),
            Err(error) => {
                cli::say(&format!("{error:#}"));
                if error.is::<server::Misconfigured>() {
                    exit::CONFIG.into()
                } else {
                    exit::INTERNAL.into()
                }
            }
        }
    })
}

/// The runtime that serves callers.
fn runtime(server: &config::Server) -> Builder {
    let workers = server.workers(threads::cores());
    let mut builder = threads::runtime(workers);
    if workers == 1 {
        // The requests of one connection go to the store before the next connection is read. In one
        // batch, the store would wait for this thread, and then this thread for the store.
        builder.max_io_events_per_tick(1);
        busy_poll::install(&mut builder, server.busy_poll);
    } else {
        builder.on_thread_park(lockkeeper_allocator::give_memory_back);
    }
    builder
}

/// What a thread does for itself when it parks, if there are several.
async fn give_memory_back() {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        lockkeeper_allocator::give_memory_back();
    }
}

fn on_runtime(mut builder: Builder, work: impl Future<Output = ExitCode>) -> ExitCode {
    let runtime: Runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            cli::say(&format!("no runtime: {error}"));
            return exit::INTERNAL.into();
        }
    };
    let code = runtime.block_on(work);
    // Remaining tasks are not awaited: a blocking DNS lookup could delay the end of the process.
    runtime.shutdown_background();
    code
}
