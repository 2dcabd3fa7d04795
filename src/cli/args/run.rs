//! The words of `run`.

use std::{ffi::OsString, time::Duration};

use clap::Args;
use lockkeeper_api::pb::LockSpec;

use super::{Mode, MoreLocks, ServerArgs, TEMPLATE};
use crate::exit;

const RUN_NOTES: &str = "\
CMD runs without a shell, in a process group of its own, which gets the signals INT, TERM, HUP,
QUIT, USR1 and USR2 that lockkeeper gets. It cannot read from a terminal. Its environment has
LOCKKEEPER_LOCK and LOCKKEEPER_FENCING_TOKEN, of NAME; LOCKKEEPER_FENCING_TOKENS, a line `TOKEN NAME` for
each lock; or with --permits LOCKKEEPER_SEMAPHORE and LOCKKEEPER_PERMITS; and LOCKKEEPER_SERVER.

Several locks are taken all or none. If one of them is lost, CMD is stopped. What is said of a lock
here holds for permits too.

The lock is renewed while CMD runs. If it is lost, or cannot be renewed in time, the process
group gets TERM, and KILL before anybody else can have the lock. When CMD ends the lock is
released; processes that it left behind run on without it. If lockkeeper itself is killed or
stopped (KILL, STOP), CMD runs on and the lock ends with its lease: let the resource check the
fencing token. A reader's token is that of the last writer, 0 if none is known.
";

/// See [`ClientCommand::Run`](super::ClientCommand::Run).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper run nightly-report -- ./report.sh
  lockkeeper run deploy --no-wait -E 0 -- make deploy     # not if somebody else is at it
  lockkeeper run printer --mode fair -- lp report.pdf     # in the order of asking
  lockkeeper run index --mode write -- ./rebuild.sh       # alone; with --mode read, together with readers
  lockkeeper run downloads --permits 1 -- ./fetch.sh      # as many at once as the semaphore has permits
  lockkeeper run orders --also billing --read prices -- ./invoice.sh
  lockkeeper run import --wait 1m --lease 10s -- sh -c 'import --fence \"$LOCKKEEPER_FENCING_TOKEN\"'",
  after_help = format!("{RUN_NOTES}\n{}", exit::RUN_HELP))]
pub struct RunArgs {
    /// The name of the lock, or with --permits of the semaphore.
    pub(crate) name: String,
    /// Hold so many permits of a semaphore and no lock.
    #[arg(long, short, conflicts_with_all = ["mode", "also", "fair", "read", "write"])]
    pub(crate) permits: Option<u32>,
    /// How to hold it.
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) mode: Mode,
    /// One more lock to hold in the same mode; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) also: Vec<String>,
    #[command(flatten)]
    pub(crate) more: MoreLocks,
    /// How long to wait for the lock [default: without limit].
    #[arg(long, short, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) wait: Option<Duration>,
    /// Do not wait.
    #[arg(long, short, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// How long the lock outlives lockkeeper if that dies [default: the coordinator's
    /// session.lease].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) lease: Option<Duration>,
    /// Replicas of the store that must know of the grant before it counts; the coordinator may ask
    /// for more.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) min_replica_acks: u32,
    /// Time from TERM to KILL when the lock is lost [default: 5s, at most a sixth of the lease].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) kill_after: Option<Duration>,
    /// Exit code if the lock was not granted.
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = exit::NOT_GRANTED)]
    pub(crate) conflict_exit_code: u8,
    /// Shown to people who ask who holds the lock [default: the name of CMD].
    #[arg(long, value_name = "TEXT")]
    pub(crate) client_name: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// What to run.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

// === impl RunArgs ===

impl RunArgs {
    /// What to hold, the named one first.
    pub(crate) fn locks(&self) -> Vec<LockSpec> {
        let named = std::iter::once(&self.name).chain(&self.also);
        self.more.after(named, self.mode)
    }
}
