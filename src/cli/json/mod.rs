//! Answers as the API's JSON mapping has them: lowerCamelCase, 64-bit numbers and durations as
//! strings. Fields with a default value are shown, so that a script finds every field; unset
//! messages are not.

pub(super) mod admin;
pub(super) mod permits;

use lockkeeper_api::pb::{
    CheckTokenResponse, DescribeLatchResponse, DescribeResponse, Grant, GrantedAll, Holder,
    LockMode, NotGranted, NotGrantedReason, ReleaseAllResponse, ReleaseResponse, RenewResponse,
    TryAcquireAllResponse, TryAcquireResponse, Waiter,
};
use serde_json::{Map, Value, json};

pub(super) fn granted(grant: &Grant) -> Value {
    json!({ "granted": self::grant(grant) })
}

pub(super) fn not_granted(refusal: &NotGranted) -> Value {
    let mut fields = Map::new();
    fields.insert(
        "reason".to_owned(),
        NotGrantedReason::as_str_name(&refusal.reason()).into(),
    );
    insert_duration(
        &mut fields,
        "holderRemainingLease",
        refusal.holder_remaining_lease.as_ref(),
    );
    json!({ "notGranted": fields })
}

pub(super) fn tried(answer: &TryAcquireResponse) -> Value {
    let mut fields = Map::new();
    fields.insert("acquired".to_owned(), answer.acquired.into());
    if let Some(grant) = &answer.grant {
        fields.insert("grant".to_owned(), self::grant(grant));
    }
    insert_duration(
        &mut fields,
        "holderRemainingLease",
        answer.holder_remaining_lease.as_ref(),
    );
    fields.into()
}

pub(super) fn granted_all(all: &GrantedAll) -> Value {
    json!({ "granted": { "grants": grants(&all.grants) } })
}

pub(super) fn tried_all(answer: &TryAcquireAllResponse) -> Value {
    let mut fields = Map::new();
    fields.insert("acquired".to_owned(), answer.acquired.into());
    fields.insert("grants".to_owned(), grants(&answer.grants));
    fields.insert("busyName".to_owned(), answer.busy_name.as_str().into());
    insert_duration(
        &mut fields,
        "holderRemainingLease",
        answer.holder_remaining_lease.as_ref(),
    );
    fields.into()
}

pub(super) fn released_all(answer: &ReleaseAllResponse) -> Value {
    let locks = answer.locks.iter().map(|lock| {
        json!({
            "name": lock.name,
            "mode": LockMode::as_str_name(&lock.mode()),
            "held": lock.held,
            "holdCount": lock.hold_count,
        })
    });
    json!({ "locks": locks.collect::<Vec<_>>() })
}

pub(super) fn released(answer: ReleaseResponse) -> Value {
    json!({ "released": answer.released, "holdCount": answer.hold_count })
}

pub(super) fn renewed(answer: &RenewResponse) -> Value {
    json!({ "grant": answer.grant.as_ref().map(grant) })
}

pub(super) fn latch(answer: &DescribeLatchResponse) -> Value {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), answer.name.as_str().into());
    fields.insert("count".to_owned(), answer.count.into());
    insert_duration(&mut fields, "remainingTtl", answer.remaining_ttl.as_ref());
    fields.insert("waiterCount".to_owned(), answer.waiter_count.into());
    fields.into()
}

pub(super) fn token_checked(answer: &CheckTokenResponse) -> Value {
    json!({
        "current": answer.current,
        "lastFencingToken": answer.last_fencing_token.to_string(),
        "held": answer.held,
    })
}

pub(super) fn described(answer: &DescribeResponse) -> Value {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), answer.name.as_str().into());
    fields.insert(
        "mode".to_owned(),
        LockMode::as_str_name(&answer.mode()).into(),
    );
    fields.insert(
        "holders".to_owned(),
        answer.holders.iter().map(holder).collect(),
    );
    insert_duration(
        &mut fields,
        "remainingLease",
        answer.remaining_lease.as_ref(),
    );
    fields.insert(
        "lastFencingToken".to_owned(),
        answer.last_fencing_token.to_string().into(),
    );
    fields.insert(
        "waiters".to_owned(),
        answer.waiters.iter().map(waiter).collect(),
    );
    fields.insert("waiterCount".to_owned(), answer.waiter_count.into());
    fields.insert("holderCount".to_owned(), answer.holder_count.into());
    fields.into()
}

fn grants(grants: &[Grant]) -> Value {
    grants.iter().map(grant).collect()
}

fn grant(grant: &Grant) -> Value {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), grant.name.as_str().into());
    fields.insert(
        "mode".to_owned(),
        LockMode::as_str_name(&grant.mode()).into(),
    );
    fields.insert("sessionId".to_owned(), grant.session_id.as_str().into());
    fields.insert("owner".to_owned(), grant.owner.as_str().into());
    fields.insert("holdCount".to_owned(), grant.hold_count.into());
    fields.insert(
        "fencingToken".to_owned(),
        grant.fencing_token.to_string().into(),
    );
    insert_duration(&mut fields, "lease", grant.lease.as_ref());
    insert_duration(&mut fields, "validFor", grant.valid_for.as_ref());
    fields.insert("watched".to_owned(), grant.watched.into());
    fields.insert("replicaAcks".to_owned(), grant.replica_acks.into());
    fields.into()
}

fn holder(holder: &Holder) -> Value {
    let mut fields = Map::new();
    fields.insert(
        "sessionDigest".to_owned(),
        holder.session_digest.as_str().into(),
    );
    fields.insert("owner".to_owned(), holder.owner.as_str().into());
    fields.insert("holdCount".to_owned(), holder.hold_count.into());
    fields.insert("clientName".to_owned(), holder.client_name.as_str().into());
    fields.insert(
        "mode".to_owned(),
        LockMode::as_str_name(&holder.mode()).into(),
    );
    insert_duration(
        &mut fields,
        "remainingLease",
        holder.remaining_lease.as_ref(),
    );
    fields.into()
}

fn waiter(waiter: &Waiter) -> Value {
    let mut fields = Map::new();
    fields.insert(
        "sessionDigest".to_owned(),
        waiter.session_digest.as_str().into(),
    );
    fields.insert("owner".to_owned(), waiter.owner.as_str().into());
    fields.insert("clientName".to_owned(), waiter.client_name.as_str().into());
    fields.insert("position".to_owned(), waiter.position.into());
    insert_duration(&mut fields, "waitingFor", waiter.waiting_for.as_ref());
    fields.insert(
        "mode".to_owned(),
        LockMode::as_str_name(&waiter.mode()).into(),
    );
    fields.into()
}

fn insert_duration(
    fields: &mut Map<String, Value>,
    name: &str,
    duration: Option<&prost_types::Duration>,
) {
    if let Some(duration) = duration {
        fields.insert(name.to_owned(), duration.to_string().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_follows_the_json_mapping() {
        let grant = Grant {
            name: "orders".to_owned(),
            mode: LockMode::Exclusive.into(),
            owner: "0".to_owned(),
            hold_count: 1,
            fencing_token: u64::MAX,
            lease: Some(prost_types::Duration {
                seconds: 30,
                nanos: 0,
            }),
            valid_for: Some(prost_types::Duration {
                seconds: 29,
                nanos: 700_000_000,
            }),
            ..Grant::default()
        };
        assert_eq!(
            granted(&grant),
            json!({ "granted": {
                "name": "orders", "mode": "LOCK_MODE_EXCLUSIVE", "sessionId": "", "owner": "0",
                "holdCount": 1, "fencingToken": "18446744073709551615", "lease": "30s",
                "validFor": "29.700s", "watched": false, "replicaAcks": 0,
            }})
        );
    }

    #[test]
    fn unset_durations_are_left_out() {
        assert_eq!(
            tried(&TryAcquireResponse::default()),
            json!({ "acquired": false })
        );
        assert_eq!(
            not_granted(&NotGranted::default()),
            json!({ "notGranted": { "reason": "NOT_GRANTED_REASON_UNSPECIFIED" } })
        );
    }
}
