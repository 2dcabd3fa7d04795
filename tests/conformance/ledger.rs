//! What the coordinators of a scenario know together, and the rules that hold in every scenario.

use std::collections::HashMap;

use lockkeeper_api::pb::{Grant, RenewRequest, session_request::Request};
use parking_lot::Mutex;

/// What coordinators of a scenario share.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Granted locks by name and owner.
    pub(crate) grants: Mutex<HashMap<(String, String), Grant>>,
    /// What each request id was used for.
    requests: Mutex<HashMap<String, String>>,
    pub(crate) problems: Mutex<Vec<String>>,
}

// === impl Ledger ===

impl Ledger {
    pub(crate) fn problem(&self, text: String) {
        self.problems.lock().push(text);
    }

    /// A request id identifies one operation, whose resends are equal but for the wait timeout.
    pub(crate) fn check_request(&self, op_id: u64, request: &Request) {
        let Some((id, what)) = identity(request) else {
            return;
        };
        if op_id == 0 {
            self.problem(format!("{what} has op_id 0"));
        }
        if id.is_empty() {
            self.problem(format!("{what} has no request_id"));
            return;
        }
        let mut requests = self.requests.lock();
        let known = requests.entry(id).or_insert_with(|| what.clone());
        if *known != what {
            self.problem(format!("one request_id for {known} and for {what}"));
        }
    }

    pub(crate) fn remember(&self, grant: &Grant) {
        let key = (grant.name.clone(), grant.owner.clone());
        self.grants.lock().insert(key, grant.clone());
    }

    pub(crate) fn renewal(&self, request: &RenewRequest) -> Option<Grant> {
        let key = (request.name.clone(), request.owner.clone());
        let grant = self.grants.lock().get(&key).cloned()?;
        Some(Grant {
            valid_for: grant.lease,
            ..grant
        })
    }
}

/// The request id of a request that changes state, and what it is for.
fn identity(request: &Request) -> Option<(String, String)> {
    macro_rules! of {
        ($it:ident, $word:literal, $what:expr) => {
            Some((
                $it.request_id.clone(),
                format!("{} {:?} of {}", $word, $what, $it.owner),
            ))
        };
    }
    match request {
        Request::Acquire(it) => of!(it, "acquire", it.name),
        Request::TryAcquire(it) => of!(it, "try_acquire", it.name),
        Request::Release(it) => of!(it, "release", it.name),
        Request::AcquireAll(it) => of!(it, "acquire_all", it.locks),
        Request::TryAcquireAll(it) => of!(it, "try_acquire_all", it.locks),
        Request::ReleaseAll(it) => of!(it, "release_all", it.locks),
        Request::AcquirePermits(it) => of!(it, "acquire_permits", it.name),
        Request::TryAcquirePermits(it) => of!(it, "try_acquire_permits", it.name),
        Request::ReleasePermits(it) => of!(it, "release_permits", it.name),
        _ => None,
    }
}
