//! The rights of callers to names.

use lockkeeper_access::{Access, Account, Audited, Right};

use crate::{error::Error, types::LockName};

// === impl LockName ===

impl LockName {
    /// Refuses a caller without this right to the name, and audits the refusal.
    pub fn permit(&self, right: Right, access: &Access, account: &Account) -> Result<(), Error> {
        if access.allows(account.identity(), right, self.public()) {
            return Ok(());
        }
        let denied = Audited {
            identity: account.identity(),
            peer: account.peer(),
            operation: right.name(),
            name: self.public(),
            reason: "",
        };
        denied.denied();
        let name = self.clone();
        Err(Error::Forbidden { right, name })
    }
}
