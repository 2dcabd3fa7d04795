//! Semaphores.

use lockkeeper_api::pb::{
    DescribeSemaphoreRequest, DescribeSemaphoreResponse, SetPermitsRequest, SetPermitsResponse,
    session_request::Request, session_response::Response,
};

use super::{
    command::{Commands, call},
    requests::PermitsRequest,
};
use crate::Error;

/// A semaphore by its name, see [`Session::semaphore`](crate::Session::semaphore).
///
/// Its methods fail with [`Error::Refused`], for instance if the semaphore does not exist, and with
/// [`Error::SessionEnded`].
#[derive(Clone, Debug)]
pub struct Semaphore {
    commands: Commands,
    name: String,
}

// === impl Semaphore ===

impl Semaphore {
    pub(super) fn new(commands: Commands, name: String) -> Self {
        Self { commands, name }
    }

    /// A number of permits to be acquired together.
    pub fn permits(&self, permits: u32) -> PermitsRequest {
        PermitsRequest::new(self.commands.clone(), self.name.clone(), permits)
    }

    /// Sets the total number of permits and creates the semaphore if needed; 0 removes it.
    pub async fn set_permits(&self, permits: u32) -> Result<SetPermitsResponse, Error> {
        self.set(permits, false).await
    }

    /// Creates the semaphore with a number of permits. An existing one is left as it is.
    pub async fn set_permits_if_absent(&self, permits: u32) -> Result<SetPermitsResponse, Error> {
        self.set(permits, true).await
    }

    async fn set(&self, permits: u32, only_if_absent: bool) -> Result<SetPermitsResponse, Error> {
        let request = SetPermitsRequest {
            name: self.name.clone(),
            permits,
            only_if_absent,
        };
        call!(self.commands, Request::SetPermits(request) => PermitsSet)
    }

    /// The holders of permits, and how many wait for some.
    pub async fn describe(&self) -> Result<DescribeSemaphoreResponse, Error> {
        let name = self.name.clone();
        let request = DescribeSemaphoreRequest { name };
        call!(self.commands, Request::DescribeSemaphore(request) => SemaphoreDescribed)
    }
}
