//! Hands a lock that is held over to another session, by a ticket.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{CallError, Hold, Holder, Mode, Refusal, Renewal};

use crate::{
    core::Core,
    error::Error,
    lock::{
        attempt::{Attempted, Giver, attempt},
        delivery::Delivery,
        describe::holder_seen,
        request::Acquire,
        ticket::{Ticket, TicketRefused},
    },
    types::{GrantKey, LockName, LostReason, Owner},
};

/// The longest time for which a ticket can be claimed.
pub const TICKET_WITHIN_MAX: Duration = Duration::from_secs(600);

/// A grant to offer.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The lock.
    pub name: LockName,
    /// The holder, in a session.
    pub owner: Owner,
    /// How long the ticket can be claimed, at most [`TICKET_WITHIN_MAX`].
    pub within: Duration,
}

/// A ticket for a grant.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The ticket.
    pub ticket: String,
    /// How long it can be claimed.
    pub within: Duration,
}

/// A lock to take over.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The claimer, in a session, and its hold: exclusive, without a request id or anything else
    /// that is said of it.
    pub acquire: Acquire,
    /// The ticket.
    pub ticket: String,
}

/// Makes a ticket for a grant. Nothing changes in the store.
pub(crate) async fn offer(core: &Core, request: &Offer) -> Result<Offered, Error> {
    let Offer {
        name,
        owner,
        within,
    } = request;
    core.scripts.check_tickets()?;
    let key = GrantKey::new(name, Mode::Exclusive, &owner.label);
    let held = core.session_of(owner)?.and_then(|it| it.grant(&key));
    let Some(held) = held else {
        return Err(Error::NotOwner(core.ownership(name).await?));
    };
    if held.mode != Mode::Exclusive || held.hold_count != 1 {
        return Err(TicketRefused::Unfit.into());
    }
    let now = clock(core, name, held.shared_field()).await?;
    let ticket = Ticket {
        token: held.fencing_token,
        until: now.saturating_add(u64::try_from(within.as_micros()).unwrap_or(u64::MAX)),
    };
    Ok(Offered {
        ticket: ticket.sign(&core.config.session_secrets, name),
        within: *within,
    })
}

/// Takes a lock over from its holder, whose coordinator is notified.
pub(crate) async fn claim(core: &Arc<Core>, request: &Claim) -> Result<Delivery, Error> {
    core.check_serving()?;
    let Claim { acquire, ticket } = request;
    core.scripts.check_tickets()?;
    let (name, secrets) = (&acquire.name, &core.config.session_secrets);
    let ticket = Ticket::verify(ticket, secrets, name).ok_or(TicketRefused::Invalid)?;
    let holder = holder(core, name, ticket.token).await?;
    let giver = holder_seen(core, name, &holder);
    let field = str::from_utf8(&holder.owner).map_err(|_| TicketRefused::Over)?;
    if holder.hold_count != 1 || giver.owner == acquire.owner {
        return Err(TicketRefused::Unfit.into());
    }
    match clock(core, name, field.into()).await {
        Ok(now) if now > ticket.until => return Err(TicketRefused::Expired.into()),
        Err(Error::NotOwner(_)) => return Err(TicketRefused::Over.into()),
        checked => checked?,
    };
    let hold = Hold::new(name.store_key(), Mode::Exclusive, field);
    let from = Giver::Holder(hold, ticket.token);
    match attempt(core, acquire, Refusal::Forgotten, Some(from)).await? {
        Attempted::Granted(delivery) => {
            let (told, name) = (Arc::clone(core), name.clone());
            core.tasks.spawn("handed-over", async move {
                let lost = LostReason::HandedOver;
                told.tell_lost(&name, ticket.token, &[giver], &lost).await;
            });
            Ok(delivery)
        }
        Attempted::Busy { .. } => {
            // Either the grant has ended since, or something besides it is in the lock's hash.
            self::holder(core, name, ticket.token).await?;
            Err(TicketRefused::Unfit.into())
        }
    }
}

/// The holder of the grant with this token.
async fn holder(core: &Core, name: &LockName, token: u64) -> Result<Holder, Error> {
    let seen = core.scripts.inspect(name.store_key(), 1).await?;
    let is_granted = seen.token == token && seen.holder_count == 1;
    let holder = seen.holders.into_iter().next().filter(|_| is_granted);
    holder.ok_or_else(|| TicketRefused::Over.into())
}

/// The store's clock in microseconds, when the store had this hold.
async fn clock(core: &Core, name: &LockName, field: Arc<str>) -> Result<u64, Error> {
    let look = Renewal {
        name: name.shared(),
        mode: Mode::Exclusive,
        owner: field,
        lease: Duration::ZERO,
        noted: false,
    };
    let seen = core.scripts.renew(std::slice::from_ref(&look)).await;
    let clock = seen.clocks.first().map(|clock| clock.micros);
    if let Some(Err(ownership)) = seen.complete()?.first() {
        return Err(Error::NotOwner(*ownership));
    }
    let clock = clock.and_then(|micros| u64::try_from(micros).ok());
    clock.ok_or_else(|| CallError::Refused("a clock without a time".to_owned()).into())
}
