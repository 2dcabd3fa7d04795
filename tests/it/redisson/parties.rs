//! Who acts in Redisson's tests: programs with threads that have locks. Here a program is a
//! session, a thread an owner in it.

use lockkeeper_api::pb::acquire_response::Event;
use lockkeeper_coordinator::SessionId;

use crate::support::prelude::*;

/// A client of Redisson's tests.
pub(super) struct Program {
    pub(super) client: Client,
    pub(super) session: Session,
}

/// A lock in the hands of one thread. A copy is another handle of the same thread.
#[derive(Clone)]
pub(super) struct Lock {
    client: Client,
    session_id: String,
    pub(super) owner: String,
    pub(super) name: String,
    pub(super) mode: LockMode,
}

// === impl Program ===

impl Program {
    /// A world of its own.
    pub(super) async fn alone() -> (World, Self) {
        let world = World::new();
        let program = Self::start(&world).await;
        (world, program)
    }

    /// The same with another one at the same coordinator.
    pub(super) async fn pair() -> (World, Self, Self) {
        let (world, one) = Self::alone().await;
        let two = Self::start(&world).await;
        (world, one, two)
    }

    /// The same with the other one at another coordinator.
    pub(super) async fn apart() -> (World, Self, Self) {
        let world = World::of(2);
        let (one, two) = (Self::start(&world).await, Self::start_at(&world, 1).await);
        (world, one, two)
    }

    pub(super) async fn start(world: &World) -> Self {
        Self::start_at(world, 0).await
    }

    pub(super) async fn start_at(world: &World, node: usize) -> Self {
        let mut client = world.client(node).await;
        let session = client.open().await;
        Self { client, session }
    }

    pub(super) fn lock(&self, name: &str, mode: LockMode, thread: &str) -> Lock {
        Lock {
            client: self.client.clone(),
            session_id: self.session.id(),
            owner: thread.to_owned(),
            name: name.to_owned(),
            mode,
        }
    }

    /// The program ends without a word.
    pub(super) fn die(&self) {
        self.client.cut();
    }
}

// === impl Lock ===

impl Lock {
    /// Waits without limit; watched.
    pub(super) async fn lock(&self) -> pb::Grant {
        self.acquire(None, None).await.unwrap().expect("no limit")
    }

    /// Waits without limit; with a lease of its own.
    pub(super) async fn lock_with(&self, lease: Duration) -> pb::Grant {
        let granted = self.acquire(None, Some(lease)).await;
        granted.unwrap().expect("no limit")
    }

    /// One attempt; watched.
    pub(super) async fn try_lock(&self) -> bool {
        self.try_for_grant(None).await.is_some()
    }

    /// One attempt; with a lease of its own.
    pub(super) async fn try_lock_with(&self, lease: Duration) -> bool {
        self.try_for_grant(Some(lease)).await.is_some()
    }

    /// A bounded wait; watched.
    pub(super) async fn try_lock_for(&self, wait: Duration) -> bool {
        self.acquire(Some(wait), None).await.unwrap().is_some()
    }

    /// A bounded wait; with a lease of its own.
    pub(super) async fn try_lock_for_with(&self, wait: Duration, lease: Duration) -> bool {
        let granted = self.acquire(Some(wait), Some(lease)).await;
        granted.unwrap().is_some()
    }

    /// Holds left, or the reason of the refusal.
    pub(super) async fn try_unlock(&self) -> Result<u32, String> {
        let request = pb::ReleaseRequest::named(self.name.clone())
            .of_session(self.session_id.clone())
            .by(self.owner.clone())
            .in_mode(self.mode);
        match self.client.clone().api.release(request).await {
            Ok(answer) => Ok(answer.into_inner().hold_count),
            Err(status) => Err(reason(&status)),
        }
    }

    /// Holds left.
    pub(super) async fn unlock(&self) -> u32 {
        self.try_unlock().await.unwrap()
    }

    /// Holds of this thread.
    pub(super) async fn hold_count(&self) -> u32 {
        let own = SessionId::parse(&self.session_id).unwrap().digest();
        let holders = self.describe().await.holders.into_iter();
        holders
            .filter(|it| it.session_digest == own && it.owner == self.owner && self.is_of(it))
            .map(|it| it.hold_count)
            .sum()
    }

    /// Whether anybody holds it in this mode.
    pub(super) async fn is_locked(&self) -> bool {
        self.describe()
            .await
            .holders
            .iter()
            .any(|it| self.is_of(it))
    }

    /// What is left of the lock's lease; none if nobody holds it.
    pub(super) async fn remaining(&self) -> Option<Duration> {
        let remaining = self.describe().await.remaining_lease;
        remaining.map(|left| std_duration(Some(left)))
    }

    pub(super) async fn describe(&self) -> pb::DescribeResponse {
        self.client.clone().describe(&self.name).await
    }

    pub(super) fn request(
        &self,
        wait: Option<Duration>,
        lease: Option<Duration>,
    ) -> pb::AcquireRequest {
        pb::AcquireRequest {
            name: self.name.clone(),
            mode: self.mode.into(),
            session_id: self.session_id.clone(),
            owner: self.owner.clone(),
            lease: lease.map(proto),
            wait_timeout: wait.map(proto),
            ..Default::default()
        }
    }

    /// None if the wait ran out; an error's reason.
    pub(super) async fn acquire(
        &self,
        wait: Option<Duration>,
        lease: Option<Duration>,
    ) -> Result<Option<pb::Grant>, String> {
        let mut client = self.client.clone();
        let mut call = client
            .acquire(self.request(wait, lease))
            .await
            .map_err(|status| reason(&status))?;
        match call.end().await {
            Ok(Event::Granted(grant)) => Ok(Some(grant)),
            Ok(_) => Ok(None),
            Err(status) => Err(reason(&status)),
        }
    }

    pub(super) async fn try_for_grant(&self, lease: Option<Duration>) -> Option<pb::Grant> {
        let request = pb::TryAcquireRequest {
            name: self.name.clone(),
            mode: self.mode.into(),
            session_id: self.session_id.clone(),
            owner: self.owner.clone(),
            lease: lease.map(proto),
            ..Default::default()
        };
        let answer = self.client.clone().api.try_acquire(request).await;
        answer.unwrap().into_inner().grant
    }

    /// Exclusive and fair are the same to who holds.
    fn is_of(&self, holder: &pb::Holder) -> bool {
        let side = |mode| matches!(mode, LockMode::Read | LockMode::Write).then_some(mode);
        side(holder.mode()) == side(self.mode)
    }
}
