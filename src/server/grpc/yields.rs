//! Requests to yield, and how long a lock is held at least or closed after a loss: the conversion
//! of their messages.

use lockkeeper_access::{Account, Right};
use lockkeeper_coordinator::{
    Error, Invalid, Lease, Mode, Reason, RequestYield, YieldRequest, YieldRequested,
};

use super::{
    audit,
    call::Calls,
    convert::{Requests, count, duration, grant, holder, remaining},
    pb,
};

// === impl Requests ===

impl Requests<'_> {
    /// How long a lock is held at least, or closed after a loss.
    pub(super) fn period(
        &self,
        field: &'static str,
        period: Option<prost_types::Duration>,
        mode: Mode,
    ) -> Result<Option<Box<Lease>>, Error> {
        let Some(period) = period else {
            return Ok(None);
        };
        if matches!(mode, Mode::Read | Mode::Write) {
            let why = "needs the mode EXCLUSIVE or FAIR";
            return Err(Invalid::new(field, why).into());
        }
        let period = duration(field, period)?;
        let period = Lease::named(field, period, self.coordinator.limits())?;
        Ok(Some(Box::new(period)))
    }

    pub(super) fn request_yield(
        &self,
        request: &pb::RequestYieldRequest,
    ) -> Result<RequestYield, Error> {
        let limits = self.coordinator.limits();
        let (right, operation) = if request.preempt {
            (Right::Preempt, "Preempt")
        } else {
            (Right::Acquire, "RequestYield")
        };
        let name = self.name(&request.name, right)?;
        audit::allowed(self.account, operation, name.public());
        let within = request.within.map(|within| duration("within", within));
        let within = RequestYield::within(within.transpose()?)?;
        let grace = request.grace_period.map(|it| duration("grace_period", it));
        let grace = grace.transpose()?;
        let grace = grace
            .map(|it| Lease::named("grace_period", it, limits))
            .transpose()?;
        if grace.is_some() && !request.preempt {
            return Err(Invalid::new("grace_period", "is set, but preempt is not").into());
        }
        let identity = self.account.identity();
        Ok(RequestYield {
            name,
            by: if identity.is_anonymous() {
                limits.client_name(request.client_name.clone())?
            } else {
                identity.as_str().to_owned()
            },
            reason: Reason::parse(&request.reason)?,
            within,
            preempt: request
                .preempt
                .then(|| grace.map_or(limits.lease_max, Lease::get)),
            for_owner: None,
            account: self.account.clone(),
        })
    }
}

/// The answer. Only callers that may describe the lock learn who holds it.
pub(super) fn requested(
    requested: YieldRequested,
    calls: &Calls,
    account: &Account,
) -> pb::RequestYieldResponse {
    let name = requested.name.public();
    let may_see = calls
        .access
        .allows(account.identity(), Right::Describe, name);
    let viewer = calls.viewer(account);
    let reached_count = requested
        .holders
        .iter()
        .filter(|(_, reached)| *reached)
        .count();
    let mut answer = pb::RequestYieldResponse {
        holder_count: count(requested.holder_count),
        reached_count: count(reached_count),
        ..pb::RequestYieldResponse::default()
    };
    for (seen, reached) in requested.holders.into_iter().filter(|_| may_see) {
        let list = if reached {
            &mut answer.reached
        } else {
            &mut answer.unreached
        };
        list.push(holder(seen, &viewer));
    }
    answer
}

/// The notice to a holder.
pub(super) fn yield_requested(
    held: &lockkeeper_coordinator::Grant,
    request: &YieldRequest,
) -> pb::YieldRequested {
    pb::YieldRequested {
        grant: Some(pb::Grant {
            valid_for: None,
            ..grant(held)
        }),
        by: request.by.clone(),
        reason: request.reason.clone(),
        within: remaining(Some(request.until)),
        preempt: request.preempts,
    }
}
