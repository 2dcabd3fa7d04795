//! The arguments of the commands that ask a coordinator: [`ClientCommand`] is all of them.

mod command;
mod common;
mod latch;
mod lock;
mod multi;
mod run;
mod semaphore;
mod server;

pub use self::{
    command::{ClientCommand, ForceReleaseArgs},
    common::{CommonArgs, NameArgs, PrefixArgs, TEMPLATE, TryArgs, WaitArgs, duration, period},
    latch::{CountDownArgs, LatchArgs, LatchCommand, SetCountArgs},
    lock::{CheckTokenArgs, HoldArgs, ReleaseArgs, RenewArgs},
    multi::{HoldAllArgs, ReleaseAllArgs},
    run::RunArgs,
    semaphore::{
        HoldPermitsArgs, ReleasePermitsArgs, RenewPermitsArgs, SemaphoreCommand, SetPermitsArgs,
    },
    server::ServerArgs,
};
