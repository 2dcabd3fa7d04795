//! `ElectionService` and the conversion of its messages.

use futures::{StreamExt as _, stream::BoxStream};
use lockkeeper_access::{Account, Right};
use lockkeeper_coordinator::{
    Acquire, Answer, Campaign, Elected, ElectionValue, Error, Invalid, LeaderSeen, Leadership,
    LockName, Mode, Observed, Operation, Owner, Proclaim, Release, Transfer, YieldRequested,
};
use tonic::{Request, Response, Status};

use super::{
    answers::Answers,
    auth,
    call::{Calls, service, within},
    convert::{self, Requests, wait, whole_millis},
    convert_note, pb,
    status::status,
    viewer::Viewer,
};

/// The reason that a leader reads if the caller gives none.
const TRANSFERRED: &str = "the leadership is transferred";

/// Serves `ElectionService`.
#[derive(Clone, Debug)]
pub(super) struct ElectionService {
    pub(super) calls: Calls,
}

service! {
    pb::election_service_server::ElectionService, ElectionService, |calls, account|
    own {
        type ObserveStream = BoxStream<'static, Result<pb::ObserveResponse, Status>>;

        async fn observe(
            &self,
            request: Request<pb::ObserveRequest>,
        ) -> Result<Response<Self::ObserveStream>, Status> {
            let account = auth::account(request.extensions());
            let observed = self.calls.observe(&account, request.get_ref());
            observed.map(Response::new).map_err(|error| status(&error))
        }
    }
    asks {
        proclaim(ProclaimRequest) -> ProclaimResponse,
            |revision| pb::ProclaimResponse { revision };
        resign(ResignRequest) -> ResignResponse, |left| resigned(left);
        transfer(TransferRequest) -> TransferResponse, |asked| transfer_requested(&asked);
        leader(LeaderRequest) -> LeaderResponse,
            |seen| leader_seen(seen, &calls.viewer(&account));
    }
    waits {
        campaign(CampaignRequest) -> CampaignStream(CampaignResponse), Campaign,
        campaign_response {
            Answer::Waiting(it) => Event::Waiting(convert::waiting(&it)),
            Answer::Elected(it) => Event::Elected(elected(it)?),
            Answer::NotGranted(it) => Event::NotElected(convert::not_granted(&it)),
        };
    }
}

// === impl Calls ===

impl Calls {
    /// The events of one observer, until it may not see them any more.
    fn observe(
        &self,
        account: &Account,
        request: &pb::ObserveRequest,
    ) -> Result<BoxStream<'static, Result<pb::ObserveResponse, Status>>, Error> {
        let name = self
            .requests(account)
            .name(&request.name, Right::Describe)?;
        let after = Some(request.after_revision).filter(|after| *after > 0);
        let observer = self.coordinator.observe(name.clone(), after, account)?;
        let viewer = self.viewer(account);
        let events = futures::stream::unfold(observer, |mut observer| async {
            Some((observer.next().await, observer))
        });
        let events = events.map(move |event| event.map(|it| observed(it, &viewer)));
        Ok(self.while_described(account, name, events))
    }
}

// === impl Requests ===

impl Requests<'_> {
    pub(super) fn campaign(&self, request: &pb::CampaignRequest) -> Result<Campaign, Error> {
        let name = self.name(&request.name, Right::Acquire)?;
        let owner = self.in_session(&request.session_id, &request.owner)?;
        let acquire = Acquire {
            lease: self.lease(request.lease)?,
            request_id: self.request_id(&request.request_id)?,
            min_replica_acks: request.min_replica_acks,
            note: convert_note::of_request(request.note.as_ref())?,
            lock_delay: self.period("lock_delay", request.lock_delay, Mode::Fair)?,
            ..Acquire::new(name, Mode::Fair, owner, self.account)
        };
        Ok(Campaign {
            acquire: acquire.prefer(request.preferred)?,
            wait: wait(request.wait_timeout)?,
            value: ElectionValue::parse(&request.value)?,
        })
    }

    pub(super) fn proclaim(&self, request: &pb::ProclaimRequest) -> Result<Proclaim, Error> {
        Ok(Proclaim {
            name: self.name(&request.name, Right::Acquire)?,
            owner: self.in_session(&request.session_id, &request.owner)?,
            term: request.term,
            value: ElectionValue::parse(&request.value)?,
        })
    }

    pub(super) fn resign(&self, request: &pb::ResignRequest) -> Result<Release, Error> {
        Ok(Release {
            name: self.name(&request.name, Right::Release)?,
            mode: Mode::Fair,
            owner: self.in_session(&request.session_id, &request.owner)?,
            request_id: self.request_id(&request.request_id)?,
        })
    }

    pub(super) fn transfer(&self, request: &pb::TransferRequest) -> Result<Transfer, Error> {
        let reason = Some(request.reason.as_str()).filter(|reason| !reason.is_empty());
        let ask = pb::RequestYieldRequest {
            name: request.name.clone(),
            reason: reason.unwrap_or(TRANSFERRED).to_owned(),
            within: request.within,
            client_name: request.client_name.clone(),
            preempt: request.preempt,
            grace_period: request.grace_period,
        };
        Ok(Transfer {
            to: request.to.clone(),
            ask: self.request_yield(&ask)?,
        })
    }

    pub(super) fn leader(&self, request: &pb::LeaderRequest) -> Result<LockName, Error> {
        self.name(&request.name, Right::Describe)
    }

    /// A candidate or leader, which is an owner in a session.
    /// An owner of an operation that only sessions have.
    pub(super) fn in_session(&self, session: &str, label: &str) -> Result<Owner, Error> {
        match self.session(session)? {
            None => {
                Err(Invalid::new("session_id", "must not be empty: this needs a session").into())
            }
            session => self.owner(session, label),
        }
    }
}

/// A leadership. Its grant counts as delivered from here on.
pub(super) fn elected(elected: Elected) -> Result<pb::Elected, Error> {
    Ok(pb::Elected {
        grant: Some(convert::granted(elected.delivery)?),
        revision: elected.revision,
    })
}

pub(super) fn resigned(hold_count: u32) -> pb::ResignResponse {
    pb::ResignResponse {
        resigned: hold_count == 0,
        hold_count,
    }
}

pub(super) fn transfer_requested(asked: &YieldRequested) -> pb::TransferResponse {
    pb::TransferResponse {
        held: asked.holder_count > 0,
        reached: asked.holders.iter().any(|(_, reached)| *reached),
    }
}

pub(super) fn leader_seen(seen: LeaderSeen, viewer: &Viewer) -> pb::LeaderResponse {
    pb::LeaderResponse {
        leader: seen.leader.map(|leader| leadership(leader, viewer)),
        remaining_lease: seen.remaining.map(whole_millis),
    }
}

fn observed(event: Observed, viewer: &Viewer) -> pb::ObserveResponse {
    use pb::observe_response::Event;

    let event = match event {
        Observed::Leader(it) => Event::Leader(leadership(it, viewer)),
        Observed::NoLeader => Event::NoLeader(pb::NoLeader {}),
        Observed::Missed => Event::Missed(pb::TermsMissed {}),
    };
    pb::ObserveResponse { event: Some(event) }
}

fn leadership(seen: Leadership, viewer: &Viewer) -> pb::Leadership {
    pb::Leadership {
        session_digest: convert::digest(&seen.owner),
        owner: viewer.owner(&seen.owner),
        term: seen.term,
        value: seen.value,
        revision: seen.revision,
        client_name: seen.client_name,
    }
}
