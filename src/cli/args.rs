//! The command line's words.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::{client::Server, exit, output::Format};
use crate::{
    config::{Flag, Sources},
    grpc::pb::LockMode,
};

/// Examples stand before everything else, exit codes after it.
const TEMPLATE: &str = "\
{about-with-newline}
{before-help}{usage-heading} {usage}

{all-args}{after-help}";

const DEFAULT_SERVER: &str = "http://127.0.0.1:7625";

const RUN_NOTES: &str = "\
CMD runs without a shell, in a process group of its own, which gets the signals INT, TERM, HUP,
QUIT, USR1 and USR2 that lockkeeper gets. It cannot read from a terminal. Its environment has
LOCKKEEPER_LOCK, LOCKKEEPER_FENCING_TOKEN and LOCKKEEPER_SERVER.

The lock is renewed while CMD runs. If it is lost, or cannot be renewed in time, the process
group gets TERM, and KILL before anybody else can have the lock. When CMD ends the lock is
released; processes that it left behind run on without it. If lockkeeper itself is killed or
stopped (KILL, STOP), CMD runs on and the lock ends with its lease: let the resource check the
fencing token. A reader's token is that of the last writer, 0 if none is known.
";

/// A lock coordinator over gRPC, and its client.
#[derive(Debug, Parser)]
#[command(version, help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper serve
  lockkeeper run nightly-report -- ./report.sh
  lockkeeper run index --mode read -- ./search.sh
  lockkeeper acquire orders --wait 10s --output json
  lockkeeper describe orders", after_help = exit::HELP)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a coordinator.
    Serve(ServeArgs),
    /// Ask one.
    #[command(flatten)]
    Client(ClientCommand),
}

/// What to ask a coordinator.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Run a command while holding a lock.
    Run(RunArgs),
    /// Wait for a lock.
    Acquire(AcquireArgs),
    /// Take a lock if that can be done now.
    TryAcquire(TryAcquireArgs),
    /// Give a lock back.
    Release(ReleaseArgs),
    /// Extend the lease of a held lock.
    Renew(RenewArgs),
    /// Show who holds a lock and who waits for it.
    Describe(DescribeArgs),
    /// Tell whether a fencing token is that of the newest grant.
    CheckToken(CheckTokenArgs),
}

/// See [`Command::Serve`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper serve
  lockkeeper serve --listen 0.0.0.0:7625 --store redis://localhost:6379
  LOCKKEEPER__SESSION__LEASE=10s lockkeeper serve --config lockkeeper.toml --print-config",
  after_help = "\
Settings: defaults < FILE < environment LOCKKEEPER__SECTION__KEY < flags.

Exit codes: 0 stopped, 64 wrong usage, 70 cannot serve, 78 unusable settings")]
pub struct ServeArgs {
    /// Read settings from a TOML file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen [server.listen].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where the locks are: embedded:, redis://… or rediss://… [store.url].
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Any other setting, as in --set session.lease=10s.
    #[arg(long, value_name = "SECTION.KEY=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,
    /// Print the settings that result, without secrets, and stop.
    #[arg(long)]
    pub print_config: bool,
}

/// See [`ClientCommand::Run`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper run nightly-report -- ./report.sh
  lockkeeper run deploy --no-wait -E 0 -- make deploy     # not if somebody else is at it
  lockkeeper run printer --mode fair -- lp report.pdf     # in the order of asking
  lockkeeper run index --mode write -- ./rebuild.sh       # alone; with --mode read, together with readers
  lockkeeper run import --wait 1m --lease 10s -- sh -c 'import --fence \"$LOCKKEEPER_FENCING_TOKEN\"'",
  after_help = format!("{RUN_NOTES}\n{}", exit::RUN_HELP))]
pub struct RunArgs {
    /// The lock's name.
    pub(super) name: String,
    /// How to hold it.
    #[arg(long, short, value_enum, default_value_t)]
    pub(super) mode: Mode,
    /// How long to wait for the lock [default: without limit].
    #[arg(long, short, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(super) wait: Option<Duration>,
    /// Do not wait.
    #[arg(long, short, conflicts_with = "wait")]
    pub(super) no_wait: bool,
    /// How long the lock outlives lockkeeper if that dies [default: the coordinator's session.lease].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(super) lease: Option<Duration>,
    /// Time from TERM to KILL when the lock is lost [default: 5s, at most a sixth of the lease].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(super) kill_after: Option<Duration>,
    /// Exit code if the lock was not granted.
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = exit::NOT_GRANTED)]
    pub(super) conflict_exit_code: u8,
    /// Shown to people who ask who holds the lock [default: the name of CMD].
    #[arg(long, value_name = "TEXT")]
    pub(super) client_name: Option<String>,
    /// The coordinator.
    #[arg(long, value_name = "URL", env = "LOCKKEEPER_SERVER", default_value = DEFAULT_SERVER, value_parser = Server::parse)]
    pub(super) server: Server,
    /// What to run.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

/// See [`ClientCommand::Acquire`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper acquire orders --wait 10s
  lockkeeper acquire orders --mode fair --wait 1m
  lockkeeper acquire orders --lease 5m --owner job-17 --request-id $(uuidgen)", after_help = exit::HELP)]
pub struct AcquireArgs {
    #[command(flatten)]
    pub(super) hold: HoldArgs,
    /// How long to wait [default: without limit].
    #[arg(long, short, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(super) wait: Option<Duration>,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// See [`ClientCommand::TryAcquire`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper try-acquire orders --output json
  lockkeeper try-acquire catalogue --mode read --owner job-17", after_help = exit::HELP)]
pub struct TryAcquireArgs {
    #[command(flatten)]
    pub(super) hold: HoldArgs,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// How to hold a lock.
#[derive(Args, Debug)]
pub(super) struct HoldArgs {
    /// The lock's name.
    pub(super) name: String,
    /// How long the store keeps the grant unless it is renewed [default: the coordinator's].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(super) lease: Option<Duration>,
    /// Who holds it; the same owner may take it again [default: made by the coordinator].
    #[arg(long)]
    pub(super) owner: Option<String>,
    /// Makes a repeat safe: it gets the first answer.
    #[arg(long, value_name = "ID")]
    pub(super) request_id: Option<String>,
    /// How to hold it.
    #[arg(long, short, value_enum, default_value_t)]
    pub(super) mode: Mode,
}

/// See [`ClientCommand::Release`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper release orders --owner job-17
  lockkeeper release catalogue --mode read --owner job-17", after_help = exit::HELP)]
pub struct ReleaseArgs {
    /// The lock's name.
    pub(super) name: String,
    /// The owner, as the grant named it.
    #[arg(long)]
    pub(super) owner: String,
    /// How it is held, as the grant said.
    #[arg(long, short, value_enum, default_value_t)]
    pub(super) mode: Mode,
    /// Makes a repeat safe: it gets the first answer.
    #[arg(long, value_name = "ID")]
    pub(super) request_id: Option<String>,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// See [`ClientCommand::Renew`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper renew orders --owner job-17 --lease 5m
  lockkeeper renew catalogue --mode read --owner job-17", after_help = exit::HELP)]
pub struct RenewArgs {
    /// The lock's name.
    pub(super) name: String,
    /// The owner, as the grant named it.
    #[arg(long)]
    pub(super) owner: String,
    /// How it is held, as the grant said.
    #[arg(long, short, value_enum, default_value_t)]
    pub(super) mode: Mode,
    /// The lease to count from now; never shortens it [default: the coordinator's].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(super) lease: Option<Duration>,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// See [`ClientCommand::Describe`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper describe orders
  lockkeeper describe orders --output json | jq -r '.waiters[].owner'", after_help = exit::HELP)]
pub struct DescribeArgs {
    /// The lock's name.
    pub(super) name: String,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// See [`ClientCommand::CheckToken`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper check-token orders 1700000000000000 || exit 1", after_help = exit::HELP)]
pub struct CheckTokenArgs {
    /// The lock's name.
    pub(super) name: String,
    /// The token that the holder showed.
    pub(super) token: u64,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// What every command that is one call has.
#[derive(Args, Debug)]
pub(super) struct CommonArgs {
    /// The coordinator.
    #[arg(long, value_name = "URL", env = "LOCKKEEPER_SERVER", default_value = DEFAULT_SERVER, value_parser = Server::parse)]
    pub(super) server: Server,
    /// The form of what is printed.
    #[arg(long, value_enum, default_value_t)]
    pub(super) output: Format,
}

/// How to hold a lock.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum Mode {
    /// One owner at a time; who comes next is not defined.
    #[default]
    Exclusive,
    /// One owner at a time, in the order of asking, also across coordinators and with Redisson's fair lock.
    Fair,
    /// Together with other readers, but no writer.
    Read,
    /// Alone. Who reads already has to give that back first.
    Write,
}

// === impl ServeArgs ===

impl ServeArgs {
    /// Where the settings come from, the process's environment included.
    pub fn sources(&self) -> Sources {
        let named = [
            ("--listen", "server.listen", &self.listen),
            ("--store", "store.url", &self.store),
        ];
        // A flag of its own is more deliberate than --set, so it comes last and wins.
        let set = self.set.iter().map(|(key, value)| Flag {
            flag: format!("--set {key}"),
            key: key.clone(),
            value: value.clone(),
        });
        let named = named.into_iter().filter_map(|(flag, key, value)| {
            value.as_ref().map(|value| Flag {
                flag: flag.to_owned(),
                key: key.to_owned(),
                value: value.clone(),
            })
        });
        Sources {
            file: self.config.clone(),
            flags: set.chain(named).collect(),
            ..Sources::from_process()
        }
    }
}

fn parse_setting(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("must be SECTION.KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

// === impl Mode ===

impl Mode {
    pub(super) fn to_proto(self) -> LockMode {
        match self {
            Self::Exclusive => LockMode::Exclusive,
            Self::Fair => LockMode::Fair,
            Self::Read => LockMode::Read,
            Self::Write => LockMode::Write,
        }
    }
}
