//! Hand-overs by ticket: the conversion of their messages.

use std::time::Duration;

use lockkeeper_access::Right;
use lockkeeper_coordinator::{
    Acquire, Claim, Delivery, Error, Invalid, Mode, Offer, Offered, TICKET_WITHIN_MAX,
};

use super::{
    convert::{Requests, duration, granted, whole_millis},
    pb,
};

/// How long a ticket can be claimed unless the request says so.
const WITHIN: Duration = Duration::from_secs(30);

// === impl Requests ===

impl Requests<'_> {
    pub(super) fn offer(&self, request: &pb::OfferRequest) -> Result<Offer, Error> {
        let name = self.name(&request.name, Right::Acquire)?;
        let owner = self.in_session(&request.session_id, &request.owner)?;
        let within = request.within.map(|within| duration("within", within));
        let within = within.transpose()?.unwrap_or(WITHIN);
        if within.is_zero() || within > TICKET_WITHIN_MAX {
            return Err(Invalid::new("within", "must be more than 0 and at most 10 min").into());
        }
        Ok(Offer {
            name,
            owner,
            within,
        })
    }

    pub(super) fn claim(&self, request: &pb::ClaimRequest) -> Result<Claim, Error> {
        let name = self.name(&request.name, Right::Acquire)?;
        let owner = self.in_session(&request.session_id, &request.owner)?;
        Ok(Claim {
            acquire: Acquire {
                lease: self.lease(request.lease)?,
                ..Acquire::new(name, Mode::Exclusive, owner, self.account)
            },
            ticket: request.ticket.clone(),
        })
    }
}

pub(super) fn offered(offered: Offered) -> pb::OfferResponse {
    pb::OfferResponse {
        ticket: offered.ticket,
        within: Some(whole_millis(offered.within)),
    }
}

/// A grant; it counts as delivered from here on.
pub(super) fn claimed(claimed: Delivery) -> Result<pb::ClaimResponse, Error> {
    Ok(pb::ClaimResponse {
        grant: Some(granted(claimed)?),
    })
}
