//! `v3electionpb.Election`.

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use lockkeeper_access::{Account, Right};
use lockkeeper_coordinator::{
    Answer, Campaign, ElectionValue, Error, Invalid, Leadership, LockName, Mode, Observed,
    Operation, Ownership, Proclaim,
};
use tonic::{Request, Response, Status};

use super::{
    key::{header, key, revision},
    leases::{Leases, lease_of},
    mvccpb::KeyValue,
    refused::{no_leader, no_lease, not_leader, refused},
    v3electionpb::{
        CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse,
        ProclaimRequest, ProclaimResponse, ResignRequest, ResignResponse, election_server,
    },
};
use crate::{
    Door,
    door::{account, release, text},
};

/// Serves `v3electionpb.Election`.
#[derive(Clone, Debug)]
pub(super) struct ElectionService {
    door: Door,
    leases: Leases,
}

// === impl ElectionService ===

impl ElectionService {
    pub(super) fn new(door: Door, leases: Leases) -> Self {
        Self { door, leases }
    }

    fn name(&self, account: &Account, name: &[u8], right: Right) -> Result<LockName, Status> {
        let name = self.door.name(account, name, right);
        name.map_err(|error| refused(&self.door, &error))
    }

    fn value(&self, value: &[u8]) -> Result<ElectionValue, Status> {
        let value = text("value", value).and_then(|it| Ok(ElectionValue::parse(it)?));
        value.map_err(|error| refused(&self.door, &error))
    }

    /// What a leader was given to show that it leads, and its term.
    fn leader_key<'a>(
        &self,
        leader: Option<&'a LeaderKey>,
    ) -> Result<(&'a LeaderKey, u64), Status> {
        let leader = leader.and_then(|key| Some((key, u64::try_from(key.rev).ok()?)));
        let why = "must be the leader that Campaign has returned";
        leader.ok_or_else(|| refused(&self.door, &Invalid::new("leader", why).into()))
    }

    async fn elect(
        &self,
        account: &Account,
        request: &CampaignRequest,
    ) -> Result<CampaignResponse, Status> {
        let door = &self.door;
        let status = |error| refused(door, &error);
        let name = self.name(account, &request.name, Right::Acquire)?;
        let value = self.value(&request.value)?;
        let lease = self.leases.get(door, account, request.lease)?;
        let campaign = Campaign {
            acquire: lease.acquire(door, account, name)?,
            wait: None,
            value,
        };
        match door.wait(account, Operation::Campaign(campaign)).await {
            Ok(Answer::Elected(elected)) => {
                let grant = elected.delivery.take().map_err(status)?;
                let covered = self.leases.cover(door, account, (&lease, &grant)).await;
                covered.map_err(status)?;
                let leader = LeaderKey {
                    name: request.name.clone(),
                    key: key(grant.name.public(), lease.id),
                    rev: revision(grant.fencing_token),
                    lease: lease.id,
                };
                Ok(CampaignResponse {
                    header: Some(header(modified(elected.revision, grant.fencing_token))),
                    leader: Some(leader),
                })
            }
            // Only the end of its session ends this wait without a grant.
            Ok(_) => Err(no_lease(door)),
            Err(error) => Err(status(error)),
        }
    }

    /// Returns the revision of the new value, and the term.
    async fn replace(
        &self,
        account: &Account,
        request: &ProclaimRequest,
    ) -> Result<(u64, u64), Status> {
        let door = &self.door;
        let (leader, term) = self.leader_key(request.leader.as_ref())?;
        let name = self.name(account, &leader.name, Right::Acquire)?;
        let lease = self.leases.find(account, leader.lease);
        // Its key has ended with its lease.
        let lease = lease.ok_or_else(|| not_leader(door, Ownership::Expired))?;
        let proclaim = Proclaim {
            name,
            owner: lease.owner(door)?,
            term,
            value: self.value(&request.value)?,
        };
        let proclaimed = door.coordinator.proclaim(proclaim).await;
        let proclaimed = proclaimed.map(|revision| (revision, term));
        proclaimed.map_err(|error| match error {
            Error::NotOwner(ownership) => not_leader(door, ownership),
            error => refused(door, &error),
        })
    }

    /// Does nothing if the term is over, or the lease has ended, as in etcd.
    async fn step_down(&self, account: &Account, request: &ResignRequest) -> Result<(), Status> {
        let door = &self.door;
        let status = |error| refused(door, &error);
        let (leader, term) = self.leader_key(request.leader.as_ref())?;
        let name = self.name(account, &leader.name, Right::Release)?;
        let Some(lease) = self.leases.find(account, leader.lease) else {
            return Ok(());
        };
        let resign = release(name.clone(), Mode::Fair, lease.owner(door)?);
        let seen = door.coordinator.leader(name).await.map_err(status)?;
        if seen.leader.is_none_or(|leader| leader.term != term) {
            return Ok(());
        }
        loop {
            match door.coordinator.resign(resign.clone()).await {
                Ok(0) | Err(Error::NotOwner(_)) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(status(error)),
            }
        }
    }

    fn observed(
        &self,
        account: Account,
        name: LockName,
    ) -> Result<BoxStream<'static, Result<LeaderResponse, Status>>, Error> {
        let door = self.door.clone();
        let observer = door.coordinator.observe(name.clone(), None, &account)?;
        let terms = stream::try_unfold((observer, name), move |(mut observer, name)| {
            let (door, account) = (door.clone(), account.clone());
            async move {
                loop {
                    let term = observer.next().await?;
                    name.permit(Right::Describe, &door.access, &account)?;
                    // An observer in etcd is shown leaders only, and may miss some.
                    if let Observed::Leader(leader) = term {
                        let shown = leader_response(&name, leader);
                        return Ok(Some((shown, (observer, name))));
                    }
                }
            }
        });
        let status = self.door.status;
        let terms = terms.map(move |term| term.map_err(|error: Error| status(&error)));
        Ok(terms.boxed())
    }
}

#[tonic::async_trait]
impl election_server::Election for ElectionService {
    type ObserveStream = BoxStream<'static, Result<LeaderResponse, Status>>;

    async fn campaign(
        &self,
        request: Request<CampaignRequest>,
    ) -> Result<Response<CampaignResponse>, Status> {
        let account = account(request.extensions());
        let elected = self.elect(&account, request.get_ref()).await;
        elected.map(Response::new)
    }

    async fn proclaim(
        &self,
        request: Request<ProclaimRequest>,
    ) -> Result<Response<ProclaimResponse>, Status> {
        let account = account(request.extensions());
        let (proclaimed, term) = self.replace(&account, request.get_ref()).await?;
        let header = Some(header(modified(proclaimed, term)));
        Ok(Response::new(ProclaimResponse { header }))
    }

    async fn leader(
        &self,
        request: Request<LeaderRequest>,
    ) -> Result<Response<LeaderResponse>, Status> {
        let account = account(request.extensions());
        let name = self.name(&account, &request.get_ref().name, Right::Describe)?;
        let seen = self.door.coordinator.leader(name.clone()).await;
        let seen = seen.map_err(|error| refused(&self.door, &error))?;
        let leader = seen.leader.ok_or_else(|| no_leader(&self.door))?;
        Ok(Response::new(leader_response(&name, leader)))
    }

    async fn observe(
        &self,
        request: Request<LeaderRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        let account = account(request.extensions());
        let name = self.name(&account, &request.get_ref().name, Right::Describe)?;
        let observed = self.observed(account, name);
        observed
            .map(Response::new)
            .map_err(|error| refused(&self.door, &error))
    }

    async fn resign(
        &self,
        request: Request<ResignRequest>,
    ) -> Result<Response<ResignResponse>, Status> {
        let account = account(request.extensions());
        self.step_down(&account, request.get_ref()).await?;
        Ok(Response::new(ResignResponse {
            header: Some(header(0)),
        }))
    }
}

/// The revision of a key that was created with this term and has the value with this revision. The
/// two are counted apart, and the sum grows with each of them: no key was changed before it was
/// created, and each change has a greater revision.
fn modified(value: u64, term: u64) -> i64 {
    revision(value.saturating_add(term))
}

/// A leader as a key with its value. One that campaigned otherwise has the digest of its owner in
/// the key, and no lease.
fn leader_response(name: &LockName, leader: Leadership) -> LeaderResponse {
    let lease = lease_of(&leader.client_name);
    let key = match lease {
        0 => format!("{name}/{}", leader.owner.digest()).into_bytes(),
        lease => key(name.public(), lease),
    };
    let kv = KeyValue {
        key,
        create_revision: revision(leader.term),
        mod_revision: modified(leader.revision, leader.term),
        // The number of changes is not known; a key with the version 0 would not exist.
        version: 1,
        value: leader.value.into_bytes(),
        lease,
    };
    LeaderResponse {
        header: Some(header(kv.mod_revision)),
        kv: Some(kv),
    }
}
