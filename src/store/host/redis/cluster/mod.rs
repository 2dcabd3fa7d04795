//! A cluster: every name has a slot, every slot has a master, and each master is talked to on
//! connections of its own, so that none ever waits for another.
//!
//! The [`router`] knows who the master of a slot is; the [`refresher`] finds that out, from several
//! nodes, at an interval and whenever something looks as if it had changed. [`calls`] go to the
//! master of their slot and follow redirections; [`channels`] are subscribed to there; a [`walk`]
//! visits all masters.
//!
//! The client that redis-rs has for clusters (`cluster_async`, read at 1.8.1) is deliberately not
//! used. When a connection drops it sends the same command again, so a script that may have run
//! could run twice; and it cannot send `WAIT` to the server that ran a script. Check again with
//! each release.

mod calls;
mod channels;
mod masters;
mod refresher;
mod router;
mod slot;
mod topology;
mod walk;

pub(super) use masters::connect;
