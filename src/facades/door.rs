//! What a facade is given of the coordinator: operations, the caller's rights, and statuses.

use lockkeeper_access::{Access, Account, Audited, Right};
use lockkeeper_coordinator::{
    Answer, AnswersTo, Coordinator, Error, Invalid, LockName, Mode, Operation, Owner, Release,
    Reply, RequestId, mailbox,
};
use tonic::{Extensions, Status};

/// The coordinator, as a facade uses it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Door {
    /// Runs the operations.
    pub coordinator: Coordinator,
    /// What callers may do.
    pub access: Access,
    /// The status of an error.
    pub status: fn(&Error) -> Status,
    /// The status for a caller that no rule allows anything.
    pub no_right: fn() -> Status,
}

/// The account that is charged for a call.
pub(crate) fn account(extensions: &Extensions) -> Account {
    extensions.get::<Account>().cloned().unwrap_or_default()
}

/// A field that other protocols send as bytes, and that is text here.
pub(crate) fn text<'a>(field: &'static str, bytes: &'a [u8]) -> Result<&'a str, Error> {
    let text = std::str::from_utf8(bytes);
    text.map_err(|_| Invalid::new(field, "must be UTF-8").into())
}

/// A release of one hold.
pub(crate) fn release(name: LockName, mode: Mode, owner: Owner) -> Release {
    Release {
        name,
        mode,
        owner,
        request_id: None,
    }
}

// === impl Door ===

impl Door {
    /// A name to which the caller has this right.
    pub(crate) fn name(
        &self,
        account: &Account,
        name: &[u8],
        right: Right,
    ) -> Result<LockName, Error> {
        let name = LockName::parse(text("name", name)?, self.coordinator.limits())?;
        name.permit(right, &self.access, account)?;
        Ok(name)
    }

    /// An owner without a session; where callers are identified, it is the caller's alone.
    pub(crate) fn sessionless(&self, account: &Account, label: &str) -> Result<Owner, Error> {
        let owner = Owner::sessionless(label, self.coordinator.limits())?;
        Ok(if self.access.is_on() {
            owner.marked(account.identity().mark())
        } else {
            owner
        })
    }

    /// A request id that a facade makes; where callers are identified, it is the caller's alone.
    /// None if it is too long for one.
    pub(crate) fn request_id(&self, account: &Account, id: &str) -> Option<RequestId> {
        let id = RequestId::parse(id, self.coordinator.limits()).ok()??;
        Some(if self.access.is_on() {
            id.marked(account.identity().mark())
        } else {
            id
        })
    }

    /// As [`Door::release_all`], and a retry gets the first answer, even if another owner holds the
    /// lock by then. If the owner has locked it again meanwhile, it is released again.
    pub(crate) async fn release_all_once(
        &self,
        release: Release,
        request_id: Option<RequestId>,
    ) -> Result<(), Error> {
        let first = Release {
            request_id,
            ..release.clone()
        };
        self.coordinator.release(first).await?;
        // That may have been the answer to another request.
        match self.release_all(release).await {
            Err(Error::NotOwner(_)) => Ok(()),
            released => released,
        }
    }

    /// Releases all holds of an owner: repeats of a request whose answer was lost may have taken
    /// more than one. An error if it has none.
    pub(crate) async fn release_all(&self, release: Release) -> Result<(), Error> {
        let mut left = self.coordinator.release(release.clone()).await?;
        while left > 0 {
            left = match self.coordinator.release(release.clone()).await {
                Err(Error::NotOwner(_)) => 0,
                left => left?,
            };
        }
        Ok(())
    }

    /// Runs an operation that may wait, and returns its last answer. Dropping the future ends the
    /// wait; a grant that was on its way is given back.
    pub(crate) async fn wait(
        &self,
        account: &Account,
        operation: Operation,
    ) -> Result<Answer, Error> {
        let (to, mut answers) = mailbox();
        let reply = Reply {
            op_id: 0,
            to: AnswersTo::Mailbox(to),
            cancel: None,
            slot: None,
            account: account.clone(),
        };
        self.coordinator.submit(operation, reply);
        while let Some(answer) = answers.recv().await {
            if let Answer::Failed(error) = answer {
                return Err(error);
            }
            if !answer.is_about_wait() {
                return answer.permitted(&self.access, account.identity());
            }
        }
        Err(Error::Draining)
    }

    /// Refuses a caller without any right, and audits the call.
    pub(crate) fn admit(
        &self,
        account: &Account,
        operation: &str,
        name: &str,
    ) -> Result<(), Status> {
        let call = Audited {
            identity: account.identity(),
            peer: account.peer(),
            operation,
            name,
            reason: "",
        };
        if !self.access.allows_anything(account.identity()) {
            call.denied();
            return Err((self.no_right)());
        }
        call.allowed();
        Ok(())
    }
}
