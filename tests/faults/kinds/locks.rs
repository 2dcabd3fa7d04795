//! Locks with one owner, which acquires them again, and read/write locks.

use std::{ops::Range, time::Duration};

use lockkeeper_api::pb::ReleaseRequest;
use lockkeeper_client::{Error, Guard, LockMode, Session};
use rand::RngExt as _;
use tokio::time::{Instant, sleep};
use tonic::Code;

use super::user::{Attempt, User, WAIT};

/// How often an owner acquires a lock, at the most.
const DEPTH_MAX: u32 = 3;

/// Once in so many turns a stranger tries to release what another may hold.
const STRANGER: u32 = 8;

/// How long a lock is held.
const BUSY: Range<u64> = 2..60;

// === impl User ===

impl User {
    /// Acquires a lock once or several times, and releases it as often.
    pub(super) async fn hold(&mut self, session: &Session, is_fair: bool) -> Result<(), Error> {
        let (name, mode) = if is_fair {
            ("kind-fair", LockMode::Fair)
        } else {
            ("kind-lock", LockMode::Exclusive)
        };
        if self.random.random_range(0..STRANGER) == 0 {
            return self.release_as_a_stranger(name).await;
        }
        let depth = self.random.random_range(1..=DEPTH_MAX);
        let modes = vec![mode; usize::try_from(depth).expect("a few")];
        self.work_under(session, "lock", name, &modes).await
    }

    /// Reads or writes; a writer may read as well, and then goes on as a reader.
    pub(super) async fn read_or_write(&mut self, session: &Session) -> Result<(), Error> {
        let name = "kind-read-write";
        let modes: &[LockMode] = match self.random.random_range(0..6) {
            0 => &[LockMode::Write],
            1 => &[LockMode::Write, LockMode::Read],
            _ => &[LockMode::Read],
        };
        self.work_under(session, "read_write", name, modes).await
    }

    /// Works with a hold in each of these modes, of one owner.
    async fn work_under(
        &mut self,
        session: &Session,
        kind: &'static str,
        name: &'static str,
        modes: &[LockMode],
    ) -> Result<(), Error> {
        // What an earlier owner may still hold is not this one's.
        let owner = self.owner();
        let mut guards = Vec::new();
        let mut failed = Ok(());
        for mode in modes {
            match self.acquire(session, kind, name, &owner, *mode).await {
                Ok(guard) => guards.push(guard),
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            }
        }
        self.work(&guards).await;
        self.give_back(guards).await?;
        failed
    }

    /// Another one each time.
    pub(super) fn owner(&mut self) -> String {
        let number = self.next();
        format!("{}-{number}", self.name)
    }

    pub(super) async fn acquire<'a>(
        &mut self,
        session: &Session,
        kind: &'static str,
        name: &'a str,
        owner: &'a str,
        mode: LockMode,
    ) -> Result<(Attempt<'a>, Guard), Error> {
        let attempt = Attempt {
            kind,
            name,
            owner,
            mode: match mode {
                LockMode::Read => "read",
                LockMode::Write => "write",
                _ => "",
            },
            number: self.next(),
        };
        self.note(attempt, "asked", 0, 0);
        let request = session.lock(name).mode(mode).owner(owner);
        match request.wait_timeout(WAIT).acquire().await {
            Ok(guard) => {
                let holds = guard.grants().first().map_or(0, |it| it.hold_count);
                self.note(attempt, "granted", holds, guard.fencing_token());
                Ok((attempt, guard))
            }
            Err(error) => {
                self.note(attempt, "failed", 0, 0);
                Err(error)
            }
        }
    }

    /// Works until it is done, or what it holds is lost.
    async fn work(&mut self, guards: &[(Attempt<'_>, Guard)]) {
        let Some((_, first)) = guards.first() else {
            return;
        };
        let busy = self.random.random_range(BUSY);
        tokio::select! {
            () = sleep(Duration::from_millis(busy)) => {}
            () = first.lost().cancelled() => {}
        }
        for (attempt, guard) in guards {
            self.relied(*attempt, guard.valid_until().min(Instant::now()));
        }
    }

    async fn give_back(&mut self, guards: Vec<(Attempt<'_>, Guard)>) -> Result<(), Error> {
        let mut ended = Ok(());
        for (attempt, guard) in guards {
            self.note(attempt, "release_sent", 0, 0);
            let released = guard.release().await;
            ended = ended.and(self.ended(attempt, "released", released));
        }
        ended
    }

    /// A client that does not hold the lock tries to release it, and is refused.
    async fn release_as_a_stranger(&mut self, name: &str) -> Result<(), Error> {
        let number = self.next();
        let owner = format!("stranger-{}-{number}", self.name);
        let attempt = Attempt {
            kind: "lock",
            name,
            owner: &owner,
            mode: "",
            number,
        };
        self.note(attempt, "release_sent", 0, 0);
        let released = match self.client.locks().await {
            Ok(mut locks) => {
                let request = ReleaseRequest {
                    name: name.to_owned(),
                    owner: owner.clone(),
                    ..ReleaseRequest::default()
                };
                locks.release(request).await.map(drop).map_err(Error::from)
            }
            Err(error) => Err(error),
        };
        let is_refused = |error: &Error| {
            let status = error.status();
            status.is_some_and(|it| it.code() == Code::FailedPrecondition)
        };
        match self.ended(attempt, "released", released) {
            Err(error) if is_refused(&error) => Ok(()),
            other => other,
        }
    }
}
