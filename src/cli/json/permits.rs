//! Semaphores as the API's JSON mapping has them.

use lockkeeper_api::pb::{
    DescribeSemaphoreResponse, NotGrantedReason, PermitGrant, PermitHolder, PermitWaiter,
    PermitsNotGranted, ReleasePermitsResponse, RenewPermitsResponse, SetPermitsResponse,
    TryAcquirePermitsResponse,
};
use serde_json::{Map, Value, json};

use super::insert_duration;

pub(crate) fn set(answer: SetPermitsResponse) -> Value {
    json!({
        "created": answer.created,
        "total": answer.total,
        "available": answer.available.to_string(),
    })
}

pub(crate) fn granted(grant: &PermitGrant) -> Value {
    json!({ "granted": self::grant(grant) })
}

pub(crate) fn not_granted(ended: PermitsNotGranted) -> Value {
    let reason = NotGrantedReason::as_str_name(&ended.reason());
    json!({ "notGranted": { "reason": reason, "available": ended.available } })
}

pub(crate) fn tried(answer: &TryAcquirePermitsResponse) -> Value {
    let mut fields = Map::new();
    fields.insert("acquired".to_owned(), answer.acquired.into());
    if let Some(grant) = &answer.grant {
        fields.insert("grant".to_owned(), self::grant(grant));
    }
    fields.insert("available".to_owned(), answer.available.into());
    fields.into()
}

pub(crate) fn released(answer: ReleasePermitsResponse) -> Value {
    json!({ "released": answer.released, "available": answer.available })
}

pub(crate) fn renewed(answer: &RenewPermitsResponse) -> Value {
    json!({ "grants": answer.grants.iter().map(grant).collect::<Vec<_>>() })
}

pub(crate) fn described(answer: &DescribeSemaphoreResponse) -> Value {
    json!({
        "name": answer.name,
        "total": answer.total,
        "available": answer.available.to_string(),
        "holders": answer.holders.iter().map(holder).collect::<Vec<_>>(),
        "waiters": answer.waiters.iter().map(waiter).collect::<Vec<_>>(),
        "waiterCount": answer.waiter_count,
        "holderCount": answer.holder_count,
    })
}

fn grant(grant: &PermitGrant) -> Value {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), grant.name.as_str().into());
    fields.insert("sessionId".to_owned(), grant.session_id.as_str().into());
    fields.insert("owner".to_owned(), grant.owner.as_str().into());
    fields.insert("permits".to_owned(), grant.permits.into());
    fields.insert("permitIds".to_owned(), grant.permit_ids.clone().into());
    insert_duration(&mut fields, "lease", grant.lease.as_ref());
    insert_duration(&mut fields, "validFor", grant.valid_for.as_ref());
    fields.insert("watched".to_owned(), grant.watched.into());
    fields.insert("replicaAcks".to_owned(), grant.replica_acks.into());
    fields.into()
}

fn holder(holder: &PermitHolder) -> Value {
    let mut fields = Map::new();
    let digest = holder.session_digest.as_str();
    fields.insert("sessionDigest".to_owned(), digest.into());
    fields.insert("owner".to_owned(), holder.owner.as_str().into());
    fields.insert("permits".to_owned(), holder.permits.into());
    fields.insert("clientName".to_owned(), holder.client_name.as_str().into());
    let remaining = holder.remaining_lease.as_ref();
    insert_duration(&mut fields, "remainingLease", remaining);
    fields.into()
}

fn waiter(waiter: &PermitWaiter) -> Value {
    let mut fields = Map::new();
    let digest = waiter.session_digest.as_str();
    fields.insert("sessionDigest".to_owned(), digest.into());
    fields.insert("owner".to_owned(), waiter.owner.as_str().into());
    fields.insert("clientName".to_owned(), waiter.client_name.as_str().into());
    fields.insert("position".to_owned(), waiter.position.into());
    insert_duration(&mut fields, "waitingFor", waiter.waiting_for.as_ref());
    fields.into()
}
