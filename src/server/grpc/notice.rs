//! Notices of a session as frames.

use lockkeeper_api::pb::{self, session_response::Response};
use lockkeeper_coordinator::{LostReason, Notice, PermitGrant};

use super::{
    convert::{grant, proto_lost_reason, whole_millis},
    convert_permits::permit_grant,
    yields::yield_requested,
};

pub(super) fn notice(notice: Notice) -> pb::session_response::Response {
    match notice {
        Notice::Lost(lost, reason) => {
            let grant = pb::Grant {
                valid_for: None,
                ..grant(&lost)
            };
            Response::Lost(pb::GrantLost {
                grant: Some(grant),
                reason: proto_lost_reason(&reason).into(),
                detail: reason.detail().unwrap_or_default().to_owned(),
                valid_for: reason.closed_for().map(whole_millis),
            })
        }
        Notice::YieldRequested(grant, request) => {
            Response::YieldRequested(yield_requested(&grant, &request))
        }
        Notice::PermitsLost(lost, reason) => Response::PermitsLost(permits_lost(&lost, &reason)),
        Notice::AtRisk(left) => Response::AtRisk(pb::SessionAtRisk {
            valid_for: Some(whole_millis(left)),
        }),
        Notice::Recovered => Response::Recovered(pb::SessionRecovered {}),
        Notice::GoingAway => Response::GoingAway(pb::SessionGoingAway {}),
    }
}

fn permits_lost(grant: &PermitGrant, reason: &LostReason) -> pb::PermitsLost {
    let grant = pb::PermitGrant {
        valid_for: None,
        ..permit_grant(grant)
    };
    pb::PermitsLost {
        grant: Some(grant),
        reason: proto_lost_reason(reason).into(),
    }
}
