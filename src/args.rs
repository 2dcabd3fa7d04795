//! The arguments of the binary: `serve`, `bench`, and the commands of clients.

use std::{
    env, io,
    path::{Path, PathBuf},
};

use clap::{
    ArgMatches, FromArgMatches as _, builder::Resettable, error::ErrorKind, parser::ValueSource,
};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use lockkeeper_bench::BenchArgs;
use lockkeeper_cli::{
    args::{ClientCommand, GlobalArgs, TEMPLATE},
    exit,
    output::Format,
};
use lockkeeper_server::config::{Flag, Sources};

/// The release, and the commit it was built from.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("LOCKKEEPER_COMMIT"),
    ")"
);

/// A lock service over gRPC: the coordinator and its command line.
#[derive(Debug, Parser)]
#[command(version = VERSION, help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper serve
  lockkeeper run nightly-report -- ./report.sh
  lockkeeper run index --mode read -- ./search.sh
  lockkeeper run downloads --permits 1 -- ./fetch.sh
  lockkeeper acquire orders --wait 10s --output json
  lockkeeper describe orders", after_help = exit::HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    _connection: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a coordinator.
    Serve(ServeArgs),
    /// Ask a coordinator.
    #[command(flatten)]
    Client(Box<ClientCommand>),
    /// Measure how fast a coordinator is.
    Bench(Box<BenchArgs>),
    /// Print the completion script for a shell.
    #[command(before_help = "\
Examples:
  lockkeeper completions bash > ~/.local/share/bash-completion/completions/lockkeeper
  lockkeeper completions zsh > ~/.zfunc/_lockkeeper
  lockkeeper completions fish > ~/.config/fish/completions/lockkeeper.fish",
        help_template = TEMPLATE)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the manual pages into a folder.
    #[command(before_help = "\
Examples:
  lockkeeper man ~/.local/share/man/man1", help_template = TEMPLATE)]
    Man {
        /// The folder.
        folder: PathBuf,
    },
    /// Print the version.
    Version,
}

/// How to run a coordinator.
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper serve
  lockkeeper serve --listen 127.0.0.1:7777 --store redis://localhost:6379
  LOCKKEEPER__SESSION__LEASE=10s lockkeeper serve --config lockkeeper.toml --print-config",
  after_help = "\
Settings: defaults < FILE < environment LOCKKEEPER__SECTION__KEY < flags.

Exit codes: 0 stopped, 64 wrong usage, 70 cannot serve, 78 unusable settings")]
pub(crate) struct ServeArgs {
    /// Read settings from a TOML file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address to listen on [server.listen].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Accept callers without credentials, even from other machines
    /// [`server.allow_unauthenticated`].
    #[arg(long)]
    allow_unauthenticated: bool,
    /// The address of the admin port, for probes, metrics and the console [admin.listen].
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<String>,
    /// The store: embedded:, redis://…, redis+sentinel://…, redis+cluster://…, or with rediss
    /// for TLS [store.url]; repeat it for a quorum of stores [store.quorum].
    #[arg(long, value_name = "URL")]
    store: Vec<String>,
    /// Any other setting, as in --set session.lease=10s.
    #[arg(long, value_name = "SECTION.KEY=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,
    /// Print the effective settings, without secrets, and exit.
    #[arg(long)]
    pub(crate) print_config: bool,
}

// === impl Cli ===

impl Cli {
    /// Parses the process's arguments. Also says in which form errors are to be printed.
    pub(crate) fn read() -> Result<(Command, Format), clap::Error> {
        let command = unset_if_empty(Self::command());
        let matches = command.clone().try_get_matches();
        // Parsed again for the usage in the error, which would name what was given, also by the
        // environment, as if it were required.
        let matches = matches.or_else(|_| general_usage(command).try_get_matches())?;
        let mut leaf = &matches;
        while let Some((_, inner)) = leaf.subcommand() {
            leaf = inner;
        }
        let format = leaf.try_get_one("output").ok().flatten().copied();
        let command = Self::from_arg_matches(&matches)?.command;
        let connects = matches!(command, Command::Client(_) | Command::Bench(_));
        if let (false, Some(flag)) = (connects, connection_flag(leaf)) {
            let why = format!("--{flag} is for commands that ask a coordinator\n");
            return Err(Self::command().error(ErrorKind::ArgumentConflict, why));
        }
        Ok((command, format.unwrap_or_default()))
    }

    /// What a shell needs to complete a command line.
    pub(crate) fn completions(shell: Shell) -> String {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Self::command(), "lockkeeper", &mut script);
        String::from_utf8(script).expect("scripts are text")
    }

    /// Writes a page for each command, `lockkeeper.1`, `lockkeeper-run.1` and so on.
    pub(crate) fn write_manual(folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        clap_mangen::generate_to(Self::command(), folder)
    }

    /// The name and the version.
    pub(crate) fn version() -> String {
        Self::command().render_version()
    }
}

// === impl ServeArgs ===

impl ServeArgs {
    /// The sources of settings, including the process's environment.
    pub(crate) fn sources(&self) -> Sources {
        // A store on the command line resets the other of the two keys to its default.
        let (url, quorum) = match self.store.as_slice() {
            [] => (None, None),
            [url] => (Some(url.clone()), Some(String::new())),
            several => (Some("embedded:".to_owned()), Some(several.join(" "))),
        };
        let named = [
            ("--listen", "server.listen", self.listen.clone()),
            (
                "--allow-unauthenticated",
                "server.allow_unauthenticated",
                self.allow_unauthenticated.then(|| "true".to_owned()),
            ),
            ("--admin-listen", "admin.listen", self.admin_listen.clone()),
            ("--store", "store.url", url),
            ("--store", "store.quorum", quorum),
        ];
        // A dedicated flag is more deliberate than --set, so it comes last and wins.
        let set = self.set.iter().map(|(key, value)| Flag {
            flag: format!("--set {key}"),
            key: key.clone(),
            value: value.clone(),
        });
        let named = named.into_iter().filter_map(|(flag, key, value)| {
            value.map(|value| Flag {
                flag: flag.to_owned(),
                key: key.to_owned(),
                value,
            })
        });
        Sources {
            file: self.config.clone(),
            flags: set.chain(named).collect(),
            ..Sources::from_process()
        }
    }
}

/// The same command, which ignores environment variables that are empty, as Compose sets them.
fn unset_if_empty(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let value = arg.get_env().and_then(env::var_os);
        let is_empty = value.is_some_and(|value| value.is_empty());
        if is_empty {
            arg.env(Resettable::Reset)
        } else {
            arg
        }
    });
    command.mut_subcommands(unset_if_empty)
}

/// The same command, whose errors show the usage that its help shows.
fn general_usage(mut command: clap::Command) -> clap::Command {
    command.build();
    let of_child = |command: clap::Command| {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").to_owned();
        general_usage(command).override_usage(usage)
    };
    command.mut_subcommands(of_child)
}

/// A flag of a connection that was given.
fn connection_flag(matches: &ArgMatches) -> Option<String> {
    let is_given = |name: &&str| {
        let is_known = matches.try_contains_id(name).is_ok();
        is_known && matches.value_source(name) == Some(ValueSource::CommandLine)
    };
    let given = GlobalArgs::NAMES.into_iter().find(is_given);
    given.map(|name| name.replace('_', "-"))
}

fn parse_setting(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("must be SECTION.KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
