//! A coordinator on a store in this process, without any protocol.

mod asked_to_yield;
mod caller;
mod elected;
mod faults;
mod followed;
mod former_holders;
mod handed_on;
mod registered;
mod requests;
mod resumed;
mod resuming_elsewhere;
mod started;
mod streams;
mod undone;
mod waits_of_sessions;

use std::{sync::Arc, time::Duration};

use lockkeeper_access::{Access, Account, Identity, Port, Quotas};
use lockkeeper_store::{
    host::embedded::{Clock, EmbeddedStore},
    script,
};

use crate::{
    config::Config,
    coordinator::Coordinator,
    session_secrets::SessionSecrets,
    types::{LockName, SessionId, tests::limits},
};

pub(crate) use self::{
    caller::Caller,
    faults::{Fault, Faults, start_faulty, two_on_one_store},
    requests::{
        acquire, acquire_all, grant, granted, granted_all, holders, in_session, locks, one_hold,
        open, owner, permits, releases, request_id, settle,
    },
    resumed::named,
};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MILLI: Duration = Duration::from_millis(1);

/// What most tests want.
pub(crate) fn config() -> Config {
    Config {
        limits: limits(),
        lease: SECOND * 30,
        poll_interval: SECOND,
        poll_jitter: 0.2,
        call_timeout: SECOND * 2,
        replica_acks: None,
        metric_prefixes: Vec::new(),
        scripts: script::Config {
            idle_token_retention: SECOND * 3600,
            request_retention: SECOND * 60,
            fair_waiter_timeout: SECOND * 5,
            writer_hold_back: SECOND * 5,
            holders_per_lock_max: 100,
            permits_per_name_max: 100,
            adopts_counters: true,
            native_commands: true,
        },
        resume_max: SECOND * 3600,
        session_secrets: SessionSecrets::new(vec![b"a secret of these tests".to_vec()]),
        unix_seconds: || 1_800_000_000,
        session_id: SessionId::random,
    }
}

/// A coordinator with this configuration, on an empty store.
pub(crate) fn start(config: Config) -> Coordinator {
    let store = EmbeddedStore::new(Clock::starting_at(1_700_000_000_000_000));
    Coordinator::start(config, store.connect())
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::parse(name, &limits()).unwrap()
}

/// A caller with these quotas.
pub(crate) fn account(quotas: Quotas) -> Account {
    let config = lockkeeper_access::Config {
        quotas,
        ..lockkeeper_access::Config::default()
    };
    let access = Access::new(config, Port::OPEN).unwrap();
    access.account(Identity::named("ci"))
}

fn shared(text: &str) -> Arc<str> {
    text.into()
}
