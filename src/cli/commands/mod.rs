//! The commands that are one call each.

mod admin;
mod again;
mod context;
mod election;
mod ended;
mod health;
mod latch;
mod lock;
mod multi;
mod own;
mod semaphore;
mod top;
mod yields;

pub(super) use self::{
    admin::{coordinators, end_session, force_release, list, sessions, watch},
    context::context,
    election::election,
    health::health,
    latch::latch,
    lock::{acquire, await_free, check_token, describe, release, renew, try_acquire, why},
    multi::{acquire_all, release_all, try_acquire_all},
    semaphore::semaphore,
    top::top,
    yields::request_yield,
};

pub use self::own::{Grpc, Own};
