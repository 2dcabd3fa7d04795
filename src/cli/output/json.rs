//! Answers in protobuf's JSON mapping: lowerCamelCase, 64-bit numbers and durations as strings.
//! Fields with a default value are present, so that scripts find every field; unset messages are
//! absent.

use std::{io, sync::LazyLock};

use lockkeeper_api::pb::DESCRIPTORS;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::{Value, value::Serializer};

static API: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(DESCRIPTORS).expect("the committed descriptors are valid")
});

/// An answer as JSON; `message` is its type in the API. Fails for a duration that JSON cannot
/// carry.
pub(super) fn json(message: &str, answer: &impl Message) -> io::Result<Value> {
    let descriptor = API
        .get_message_by_name(&format!("lockkeeper.v1.{message}"))
        .expect("the API has this message");
    let answer = DynamicMessage::decode(descriptor, answer.encode_to_vec().as_slice())
        .map_err(io::Error::other)?;
    let options = SerializeOptions::new().skip_default_fields(false);
    Ok(answer.serialize_with_options(Serializer, &options)?)
}

#[cfg(test)]
mod tests {
    use lockkeeper_api::pb::{
        AcquireResponse, Grant, LockMode, NotGranted, TryAcquireResponse, acquire_response::Event,
    };
    use serde_json::json;

    use super::json as to_json;

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
        let event = Some(Event::Granted(grant));
        assert_eq!(
            to_json("AcquireResponse", &AcquireResponse { event }).unwrap(),
            json!({ "granted": {
                "name": "orders", "mode": "LOCK_MODE_EXCLUSIVE", "sessionId": "", "owner": "0",
                "holdCount": 1, "fencingToken": "18446744073709551615", "lease": "30s",
                "validFor": "29.700s", "watched": false, "replicaAcks": 0,
            }})
        );
    }

    #[test]
    fn unset_durations_are_absent() {
        assert_eq!(
            to_json("TryAcquireResponse", &TryAcquireResponse::default()).unwrap(),
            json!({ "acquired": false })
        );
        let event = Some(Event::NotGranted(NotGranted::default()));
        assert_eq!(
            to_json("AcquireResponse", &AcquireResponse { event }).unwrap(),
            json!({ "notGranted": { "reason": "NOT_GRANTED_REASON_UNSPECIFIED" } })
        );
    }
}
