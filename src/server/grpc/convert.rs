//! Converts between proto and domain. All input is checked here, once.

use std::time::Duration;

use tokio::time::Instant;

use super::{convert_note, pb, viewer::Viewer};
use lockkeeper_access::{Access, Account, Identity, Right};
use lockkeeper_coordinator::{
    Acquire, CheckToken, Coordinator, Delivery, Description, Error, Grant, HolderSeen, Invalid,
    Lease, Limits, LockName, LostReason, Mode, NotGranted, OnDisconnect, Owner, Release, Renew,
    RequestId, ResumedGrant, SessionId, TokenChecked, Tried, WaitEnd, WaiterSeen, Waiting,
};

/// Converts requests to operations. Checks the coordinator's limits and the caller's rights;
/// requests on a session's stream belong to that session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requests<'a> {
    pub(super) coordinator: &'a Coordinator,
    pub(super) access: &'a Access,
    pub(super) account: &'a Account,
    /// For requests in frames, the owner of those in the stream's session that name none.
    pub(super) own: Option<&'a Owner>,
}

/// The common fields of `Acquire` and `TryAcquire`.
macro_rules! acquire {
    ($requests:ident, $request:ident) => {{
        let name = $requests.name(&$request.name, Right::Acquire)?;
        let mode = mode($request.mode)?;
        let request_id = $requests.request_id(&$request.request_id)?;
        Acquire {
            owner: $requests.owner_or_made(
                &$request.session_id,
                &$request.owner,
                &name,
                request_id.as_ref(),
            )?,
            name,
            mode,
            lease: $requests.lease($request.lease)?,
            wait: None,
            request_id,
            min_replica_acks: $request.min_replica_acks,
            note: convert_note::of_request($request.note.as_ref())?,
            hold_at_least: $requests.period("hold_at_least", $request.hold_at_least, mode)?,
            lock_delay: $requests.period("lock_delay", $request.lock_delay, mode)?,
            end_on_deadlock: false,
            preferred: false,
            account: $requests.account.clone(),
        }
    }};
}

// === impl Requests ===

impl Requests<'_> {
    pub(super) fn acquire(&self, request: &pb::AcquireRequest) -> Result<Acquire, Error> {
        let wait = wait(request.wait_timeout)?;
        let acquire = Acquire {
            wait,
            end_on_deadlock: request.end_on_deadlock,
            ..acquire!(self, request)
        };
        Ok(acquire.prefer(request.preferred)?)
    }

    pub(super) fn try_acquire(&self, request: &pb::TryAcquireRequest) -> Result<Acquire, Error> {
        Ok(acquire!(self, request))
    }

    pub(super) fn release(&self, request: &pb::ReleaseRequest) -> Result<Release, Error> {
        let name = self.name(&request.name, Right::Release)?;
        let session = self.session(&request.session_id)?;
        Ok(Release {
            name,
            mode: mode(request.mode)?,
            owner: self.owner(session, &request.owner)?,
            request_id: self.request_id(&request.request_id)?,
        })
    }

    pub(super) fn renew(&self, request: &pb::RenewRequest) -> Result<Renew, Error> {
        let name = self.name(&request.name, Right::Acquire)?;
        let session = self.session(&request.session_id)?;
        Ok(Renew {
            name,
            mode: mode(request.mode)?,
            owner: self.owner(session, &request.owner)?,
            lease: self.lease(request.lease)?,
        })
    }

    pub(super) fn describe(&self, request: &pb::DescribeRequest) -> Result<LockName, Error> {
        self.name(&request.name, Right::Describe)
    }

    pub(super) fn check_token(&self, request: &pb::CheckTokenRequest) -> Result<CheckToken, Error> {
        Ok(CheckToken {
            name: self.name(&request.name, Right::Describe)?,
            token: request.fencing_token,
        })
    }

    pub(super) fn lease(
        &self,
        lease: Option<prost_types::Duration>,
    ) -> Result<Option<Lease>, Error> {
        let Some(lease) = lease else { return Ok(None) };
        Ok(Some(Lease::new(
            duration("lease", lease)?,
            self.coordinator.limits(),
        )?))
    }

    /// The grants that a resuming client names. It also names what it may hold, because an acquire
    /// was not answered. So an invalid entry is left out: it can not have been granted, and must
    /// not cost the session its grants.
    pub(super) fn resumed(&self, id: &SessionId, grants: Vec<pb::Grant>) -> Vec<ResumedGrant> {
        let limits = self.coordinator.limits();
        let resumed = grants.into_iter().filter_map(|grant| {
            let name = LockName::parse(&grant.name, limits).ok()?;
            Some(ResumedGrant {
                is_permitted: self.may(Right::Acquire, &name).is_ok(),
                name,
                mode: mode(grant.mode).ok()?,
                owner: Owner::in_session(id.clone(), &grant.owner, limits).ok()?,
                watched: grant.watched,
                fencing_token: grant.fencing_token,
                hold_count: grant.hold_count,
            })
        });
        resumed.collect()
    }

    fn caller(&self) -> &Identity {
        self.account.identity()
    }

    /// A name to which the caller has this right.
    pub(super) fn name(&self, name: &str, right: Right) -> Result<LockName, Error> {
        let name = LockName::parse(name, self.coordinator.limits())?;
        self.may(right, &name)?;
        Ok(name)
    }

    pub(super) fn may(&self, right: Right, name: &LockName) -> Result<(), Error> {
        name.permit(right, self.access, self.account)
    }

    /// A malformed id belongs to no session. Another identity's session does not exist for this
    /// caller.
    pub(super) fn session(&self, id: &str) -> Result<Option<SessionId>, Error> {
        match self.own.and_then(|own| own.session.as_ref()) {
            Some(own) if id.is_empty() || id == own.as_str() => Ok(Some(own.clone())),
            Some(_) => Err(Invalid::new("session_id", "is not the session of this stream").into()),
            None if id.is_empty() => Ok(None),
            None => SessionId::parse(id)
                .filter(|id| {
                    !self.access.is_on() || self.coordinator.is_session_of(id, self.caller())
                })
                .map(Some)
                .ok_or(Error::SessionNotFound),
        }
    }

    pub(super) fn request_id(&self, id: &str) -> Result<Option<RequestId>, Error> {
        let id = RequestId::parse(id, self.coordinator.limits())?;
        Ok(match self.mark() {
            Some(mark) => id.map(|id| id.marked(mark)),
            None => id,
        })
    }

    /// The owner of an acquire; one is made for a sessionless request that names none.
    pub(super) fn owner_or_made(
        &self,
        session: &str,
        label: &str,
        name: &LockName,
        request_id: Option<&RequestId>,
    ) -> Result<Owner, Error> {
        match self.session(session)? {
            None if label.is_empty() => Ok(self.marked(Owner::made(name, request_id))),
            session => self.owner(session, label),
        }
    }

    pub(super) fn owner(&self, session: Option<SessionId>, label: &str) -> Result<Owner, Error> {
        let limits = self.coordinator.limits();
        let owner = match (session, self.own) {
            (Some(_), Some(own)) if label.is_empty() || *label == *own.label => own.clone(),
            (Some(session), _) => Owner::in_session(session, label, limits)?,
            (None, _) => Owner::sessionless(label, limits)?,
        };
        Ok(self.marked(owner))
    }

    fn marked(&self, owner: Owner) -> Owner {
        match self.mark() {
            Some(mark) => owner.marked(mark),
            None => owner,
        }
    }

    /// The mark that separates the caller's owners and requests from those of others. None where
    /// every caller is anonymous.
    fn mark(&self) -> Option<&str> {
        self.access.is_on().then(|| self.caller().mark())
    }
}

/// The mode of a lock; unset means exclusive.
pub(super) fn mode(number: i32) -> Result<Mode, Invalid> {
    Ok(match pb::LockMode::try_from(number) {
        Ok(pb::LockMode::Unspecified | pb::LockMode::Exclusive) => Mode::Exclusive,
        Ok(pb::LockMode::Fair) => Mode::Fair,
        Ok(pb::LockMode::Read) => Mode::Read,
        Ok(pb::LockMode::Write) => Mode::Write,
        Err(_) => {
            let why = format!("{number} is not a mode that this coordinator knows");
            return Err(Invalid::new("mode", why));
        }
    })
}

pub(super) fn proto_mode(mode: Mode) -> pb::LockMode {
    match mode {
        Mode::Exclusive => pb::LockMode::Exclusive,
        Mode::Fair => pb::LockMode::Fair,
        Mode::Read => pb::LockMode::Read,
        Mode::Write => pb::LockMode::Write,
    }
}

/// The longest wait of a request; none: unlimited.
pub(super) fn wait(wait: Option<prost_types::Duration>) -> Result<Option<Duration>, Invalid> {
    wait.map(|wait| duration("wait_timeout", wait)).transpose()
}

/// The grace period of a forced release; none: zero.
pub(super) fn grace_period(
    period: Option<prost_types::Duration>,
    limits: &Limits,
) -> Result<Duration, Invalid> {
    const FIELD: &str = "grace_period";
    match period.map(|period| duration(FIELD, period)).transpose()? {
        None | Some(Duration::ZERO) => Ok(Duration::ZERO),
        Some(period) => Ok(Lease::named(FIELD, period, limits)?.get()),
    }
}

/// A non-negative duration.
pub(super) fn duration(
    field: &'static str,
    duration: prost_types::Duration,
) -> Result<Duration, Invalid> {
    let refuse = || Invalid::new(field, "must not be negative or out of range");
    // The conversion negates the seconds, which not every number survives.
    if duration.seconds < 0 {
        return Err(refuse());
    }
    Duration::try_from(duration).map_err(|_| refuse())
}

/// The enum value of `open`.
pub(super) fn on_disconnect(number: i32) -> Result<OnDisconnect, Invalid> {
    match pb::OnDisconnect::try_from(number) {
        Ok(pb::OnDisconnect::Unspecified | pb::OnDisconnect::Keep) => Ok(OnDisconnect::Keep),
        Ok(pb::OnDisconnect::Release) => Ok(OnDisconnect::Release),
        Err(_) => Err(Invalid::new(
            "on_disconnect",
            format!("{number} is not known"),
        )),
    }
}

pub(super) fn proto_duration(duration: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    let nanos = i32::try_from(duration.subsec_nanos()).unwrap_or(i32::MAX);
    prost_types::Duration { seconds, nanos }
}

/// The time left until an instant, in whole milliseconds: the store's resolution.
pub(super) fn remaining(until: Option<Instant>) -> Option<prost_types::Duration> {
    until.map(|until| whole_millis(until.saturating_duration_since(Instant::now())))
}

pub(super) fn whole_millis(duration: Duration) -> prost_types::Duration {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    proto_duration(Duration::from_millis(millis))
}

pub(super) fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The digest of an owner's session; empty without one.
pub(super) fn digest(owner: &Owner) -> String {
    let session = owner.session.as_ref();
    session.map_or_else(String::new, SessionId::digest)
}

pub(super) fn grant(grant: &Grant) -> pb::Grant {
    let session = grant.owner.session.as_ref();
    pb::Grant {
        name: grant.name.public().to_owned(),
        mode: proto_mode(grant.mode).into(),
        session_id: session.map_or("", SessionId::as_str).to_owned(),
        owner: grant.owner.label.as_ref().to_owned(),
        hold_count: grant.hold_count,
        fencing_token: grant.fencing_token,
        lease: Some(whole_millis(grant.lease)),
        valid_for: remaining(Some(grant.safe_until)),
        watched: grant.watched,
        replica_acks: grant.replica_acks,
    }
}

pub(super) fn waiting(waiting: &Waiting) -> pb::Waiting {
    pb::Waiting {
        position: waiting.position,
        holder_remaining_lease: remaining(waiting.holder.until),
        holder_note: convert_note::of_holder(&waiting.holder),
    }
}

/// The reason that a wait ended.
pub(super) fn proto_wait_end(why: WaitEnd) -> pb::NotGrantedReason {
    match why {
        WaitEnd::TimedOut => pb::NotGrantedReason::WaitTimeout,
        WaitEnd::Cancelled => pb::NotGrantedReason::Cancelled,
        WaitEnd::Deadlock => pb::NotGrantedReason::Deadlock,
    }
}

pub(super) fn not_granted(ended: &NotGranted) -> pb::NotGranted {
    pb::NotGranted {
        reason: proto_wait_end(ended.why).into(),
        holder_remaining_lease: remaining(ended.holder.until),
        holder_note: convert_note::of_holder(&ended.holder),
    }
}

/// A grant; it counts as delivered from here on.
pub(super) fn granted(mut delivery: Delivery) -> Result<pb::Grant, Error> {
    delivery.deliver().map(grant)
}

/// The answer to `TryAcquire`. A grant counts as delivered from here on.
pub(super) fn tried(tried: Tried) -> Result<pb::TryAcquireResponse, Error> {
    Ok(match tried {
        Tried::Acquired(delivery) => pb::TryAcquireResponse {
            acquired: true,
            grant: Some(granted(delivery)?),
            ..pb::TryAcquireResponse::default()
        },
        Tried::Busy { holder } => pb::TryAcquireResponse {
            holder_remaining_lease: remaining(holder.until),
            holder_note: convert_note::of_holder(&holder),
            ..pb::TryAcquireResponse::default()
        },
    })
}

pub(super) fn renewed(renewed: &Grant) -> pb::RenewResponse {
    pb::RenewResponse {
        grant: Some(grant(renewed)),
    }
}

pub(super) fn released(hold_count: u32) -> pb::ReleaseResponse {
    pb::ReleaseResponse {
        released: hold_count == 0,
        hold_count,
    }
}

pub(super) fn token_checked(checked: TokenChecked) -> pb::CheckTokenResponse {
    pb::CheckTokenResponse {
        current: checked.current,
        last_fencing_token: checked.last,
        held: checked.held,
    }
}

pub(super) fn described(seen: Description, viewer: &Viewer) -> pb::DescribeResponse {
    let mode = seen.mode.map_or(pb::LockMode::Unspecified, proto_mode);
    let waiters = seen.waiters.into_iter().zip(1..);
    pb::DescribeResponse {
        name: seen.name.public().to_owned(),
        mode: mode.into(),
        holders: seen
            .holders
            .into_iter()
            .map(|seen| holder(seen, viewer))
            .collect(),
        remaining_lease: seen.remaining.map(whole_millis),
        last_fencing_token: seen.fencing_token,
        waiters: waiters
            .map(|(seen, position)| waiter(seen, position, viewer))
            .collect(),
        waiter_count: count(seen.waiter_count),
        holder_count: count(seen.holder_count),
    }
}

pub(super) fn holder(seen: HolderSeen, viewer: &Viewer) -> pb::Holder {
    pb::Holder {
        session_digest: digest(&seen.owner),
        owner: viewer.owner(&seen.owner),
        hold_count: seen.hold_count,
        client_name: seen.client_name,
        mode: proto_mode(seen.mode).into(),
        remaining_lease: seen.remaining.map(whole_millis),
        note: seen.note.as_deref().map(convert_note::proto),
        held_for: seen.since.map(|since| whole_millis(since.elapsed())),
    }
}

fn waiter(seen: WaiterSeen, position: u32, viewer: &Viewer) -> pb::Waiter {
    pb::Waiter {
        session_digest: digest(&seen.owner),
        owner: viewer.owner(&seen.owner),
        client_name: seen.client_name,
        position,
        waiting_for: seen.since.map(|since| whole_millis(since.elapsed())),
        mode: proto_mode(seen.mode).into(),
    }
}

pub(super) fn proto_lost_reason(reason: &LostReason) -> pb::LostReason {
    match reason {
        LostReason::Expired => pb::LostReason::Expired,
        LostReason::TakenOver => pb::LostReason::TakenOver,
        LostReason::StoreUnreachable => pb::LostReason::StoreUnreachable,
        LostReason::ForceReleased {
            preempted: true, ..
        } => pb::LostReason::Preempted,
        LostReason::ForceReleased { .. } => pb::LostReason::ForceReleased,
        LostReason::ClockStepped => pb::LostReason::ClockStepped,
        LostReason::HandedOver => pb::LostReason::HandedOver,
    }
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
