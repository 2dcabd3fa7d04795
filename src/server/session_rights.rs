//! Who may end sessions of others.

use std::sync::Arc;

use lockkeeper_access::{Access, Identity, Right};
use lockkeeper_coordinator::Session;

/// Whether a caller has the admin right to every name that the sessions hold. A session without a
/// name, and one that is not here, takes the right to all names.
pub(crate) fn may_end(access: &Access, caller: &Identity, sessions: &[Arc<Session>]) -> bool {
    let may = |name: &str| access.allows(caller, Right::Admin, name);
    let names = sessions.iter().map(|session| session.names());
    let names: Option<Vec<_>> = names.collect::<Option<Vec<_>>>().map(|it| it.concat());
    let is_partial =
        names.is_some_and(|names| !names.is_empty() && names.iter().all(|name| may(name.public())));
    is_partial || may("")
}
