//! The arguments of the commands that ask a coordinator: [`ClientCommand`] is all of them.

mod command;
mod common;
mod context;
mod election;
mod global;
mod latch;
mod lock;
mod multi;
mod run;
mod semaphore;
mod server;
mod yields;

pub(crate) use self::command::{By, Sort};
pub use self::{
    command::{ClientCommand, EndSessionArgs, ForceReleaseArgs, ListArgs, TopArgs},
    common::{
        CommonArgs, FleetArgs, FleetPrefixArgs, NameArgs, TEMPLATE, TryArgs, WaitArgs, WatchArgs,
        duration, period,
    },
    context::{ContextCommand, SetContextArgs},
    election::{ElectArgs, ElectionCommand, TransferArgs, WatchElectionArgs},
    global::GlobalArgs,
    latch::{CountDownArgs, LatchArgs, LatchCommand, SetCountArgs},
    lock::{CheckTokenArgs, HoldArgs, LockArgs, ReleaseArgs, RenewArgs},
    multi::{HoldAllArgs, ReleaseAllArgs},
    run::RunArgs,
    semaphore::{
        HoldPermitsArgs, ReleasePermitsArgs, RenewPermitsArgs, SemaphoreCommand, SetPermitsArgs,
    },
    server::{ServerArgs, address},
    yields::YieldArgs,
};
