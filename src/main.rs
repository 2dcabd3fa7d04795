//! The process: reads the command line, builds a runtime, passes the exit code on.

use std::process::ExitCode;

use lockkeeper::{
    busy_poll,
    cli::{
        self, Command,
        args::{ClientCommand, ServeArgs},
        exit,
    },
    config, server, telemetry, threads,
};
use tokio::runtime::{Builder, Runtime};

/// Every call makes dozens of small allocations, and 100,000 waiters keep theirs; see docs/performance.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Two providers are linked in by dependencies, and rustls does not choose between them.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        cli::say("a provider of cryptography is installed already");
        return exit::INTERNAL.into();
    }
    match cli::parse() {
        Ok(Command::Serve(args)) => serve(&args),
        Ok(Command::Client(command)) => ask(*command),
        Err(code) => code,
    }
}

fn serve(args: &ServeArgs) -> ExitCode {
    let settings = match args.sources().load() {
        Ok(settings) => settings,
        Err(refused) => {
            for problem in refused.to_string().lines() {
                cli::say(problem);
            }
            return exit::CONFIG.into();
        }
    };
    if args.print_config {
        return match cli::print(&settings.to_redacted_toml()) {
            Ok(()) => exit::OK.into(),
            Err(_) => exit::INTERNAL.into(),
        };
    }
    on_runtime(runtime(&settings.server), async {
        let sending = match telemetry::init(&settings.log, &settings.telemetry) {
            Ok(sending) => sending,
            Err(error) => {
                cli::say(&error.to_string());
                return exit::CONFIG.into();
            }
        };
        let served = server::run(settings).await;
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

fn ask(command: ClientCommand) -> ExitCode {
    on_runtime(cli::runtime(&command), cli::execute(command))
}

/// The runtime that serves callers.
fn runtime(server: &config::Server) -> Builder {
    let workers = server.workers(threads::cores());
    let mut builder = threads::runtime(workers);
    if workers == 1 {
        // What one connection has brought goes on to the store before the next is read. All at once, the store would wait for this thread, and then this
        // thread for the store.
        builder.max_io_events_per_tick(1);
        busy_poll::install(&mut builder, server.busy_poll);
    }
    builder
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
    // What still runs has no say any more: a blocking look-up of a name could hold the process up.
    runtime.shutdown_background();
    code
}
