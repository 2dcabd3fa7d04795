//! Arguments of `run`.

use std::{ffi::OsString, time::Duration};

use clap::Args;
use lockkeeper_api::pb::LockSpec;
use nix::sys::signal::Signal;

use super::{
    common::{Mode, NoteArgs, TEMPLATE, period},
    multi::MoreLocks,
    server::ServerArgs,
};
use crate::exit;

/// The owner within the session unless a candidate is named.
pub(super) const OWNER: &str = "0";

const RUN_NOTES: &str = "\
CMD runs without a shell, in its own process group. lockkeeper passes the signals INT, TERM, HUP,
QUIT, USR1 and USR2 on to that group. In the foreground of a terminal, CMD has the terminal;
Ctrl-Z does not suspend it. The environment of CMD has LOCKKEEPER_SERVER, and for NAME
LOCKKEEPER_LOCK and LOCKKEEPER_FENCING_TOKEN. LOCKKEEPER_FENCING_TOKENS has a line `TOKEN NAME`
for each lock. With --permits, LOCKKEEPER_SEMAPHORE and LOCKKEEPER_PERMITS replace these three.

Several locks are acquired together or not at all. If one of them is lost, CMD is stopped. The
same rules hold for permits.

The lock is renewed while CMD runs. If it is lost, or cannot be renewed in time, the process
group gets TERM, then KILL, before another owner can acquire the lock. After a loss of the store's
data, or a force-release without a grace period, another owner may hold the lock already.

When CMD ends, the lock is released; processes that CMD left behind continue without it. If
lockkeeper itself is killed or stopped (KILL, STOP), CMD continues and the lock ends with its
lease: have the resource check the fencing token. For readers, it is the last writer's token (0
if unknown).
";

/// See [`ClientCommand::Run`](super::ClientCommand::Run).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper run nightly-report -- ./report.sh
  lockkeeper run deploy --no-wait -E 0 -- make deploy     # skipped while another deploy runs
  lockkeeper run deploy --reason 'release 1.4' --label team=web -- make deploy
  lockkeeper run printer --mode fair -- lp report.pdf     # in the order of requests
  lockkeeper run index --mode write -- ./rebuild.sh       # alone; readers use --mode read
  lockkeeper run downloads --permits 1 -- ./fetch.sh      # one per permit of the semaphore
  lockkeeper run orders --also billing --read prices -- ./invoice.sh
  lockkeeper run import --wait 1m --lease 10s -- \\
    sh -c 'import --fence \"$LOCKKEEPER_FENCING_TOKEN\"'",
  after_help = format!("{RUN_NOTES}\n{}", exit::RUN_HELP))]
pub struct RunArgs {
    /// The name of the lock or, with --permits, of the semaphore.
    pub(crate) name: String,
    /// Hold this many permits of a semaphore instead of a lock.
    #[arg(long, short, conflicts_with_all = ["mode", "also", "fair", "read", "write",
        "reason", "labels"])]
    pub(crate) permits: Option<u32>,
    /// The mode in which to hold the lock.
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) mode: Mode,
    /// One more lock to hold in the same mode; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) also: Vec<String>,
    #[command(flatten)]
    pub(crate) more: MoreLocks,
    /// The minimum time for which the lock stays held, even if CMD ends earlier, so that a short
    /// job does not run again at once on another machine. For one lock, in exclusive or fair mode.
    #[arg(long, value_name = "DURATION", value_parser = period,
        conflicts_with_all = ["permits", "also", "fair", "read", "write"])]
    pub(crate) hold_at_least: Option<Duration>,
    /// How long the lock stays closed if it is lost without a release, for example by a crash, so
    /// that work that CMD has started can finish. For one lock, in exclusive or fair mode.
    #[arg(long, value_name = "DURATION", value_parser = period,
        conflicts_with_all = ["permits", "also", "fair", "read", "write"])]
    pub(crate) lock_delay: Option<Duration>,
    /// The owner of all grants of one `run`.
    #[arg(skip = OWNER)]
    pub(crate) owner: String,
    /// The value of a leader, if the lock is an election's.
    #[arg(skip)]
    pub(crate) value: Option<String>,
    /// Whether it is a preferred candidate of that election.
    #[arg(skip)]
    pub(crate) preferred: bool,
    #[command(flatten)]
    pub(crate) how: HowArgs,
}

/// How to wait for what a command runs under, and the command.
#[derive(Args, Debug)]
pub(crate) struct HowArgs {
    /// How long to wait for the lock [default: without limit].
    #[arg(long, short, value_name = "DURATION", value_parser = period)]
    pub(crate) wait: Option<Duration>,
    /// Do not wait.
    #[arg(long, short, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// How long the lock stays held if lockkeeper dies [default: the coordinator's
    /// session.lease].
    #[arg(long, value_name = "DURATION", value_parser = period)]
    pub(crate) lease: Option<Duration>,
    /// The minimum number of replicas that must acknowledge the grant; the coordinator may require
    /// more.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) min_replica_acks: u32,
    /// Time from TERM to KILL when the lock is lost [default: 5s, at most a sixth of the lease].
    #[arg(long, value_name = "DURATION", value_parser = period)]
    pub(crate) kill_after: Option<Duration>,
    /// The signal that CMD receives when a caller asks for the lock with `lockkeeper yield`, such
    /// as TERM or USR1 [default: none; a message is printed].
    #[arg(long, value_name = "SIGNAL", value_parser = signal)]
    pub(crate) on_yield: Option<Signal>,
    /// Exit code if the lock was not granted.
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = exit::NOT_GRANTED)]
    pub(crate) conflict_exit_code: u8,
    #[command(flatten)]
    pub(crate) note: NoteArgs,
    /// The holder's name in `describe` and `list` [default: the name of CMD].
    #[arg(long, value_name = "TEXT")]
    pub(crate) client_name: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// The command to run.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub(crate) command: Vec<OsString>,
}

/// A signal by its name, with or without `SIG`.
fn signal(text: &str) -> Result<Signal, &'static str> {
    let name = text.to_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let known = format!("SIG{name}").parse();
    known.map_err(|_| "must be the name of a signal, such as TERM")
}

// === impl RunArgs ===

impl RunArgs {
    /// The locks to hold, NAME first.
    pub(crate) fn locks(&self) -> Vec<LockSpec> {
        let named = std::iter::once(&self.name).chain(&self.also);
        self.more.after(named, self.mode)
    }
}
