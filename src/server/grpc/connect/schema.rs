//! The methods of the API, and its messages as JSON.

use std::{
    collections::HashMap,
    fmt::Display,
    sync::{Arc, LazyLock},
};

use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MessageDescriptor, MethodDescriptor, SerializeOptions,
};
use prost_types::FileDescriptorSet;
use serde_path_to_error::{Path, Segment, Track};
use tonic::Status;

use crate::grpc::{pb, status};

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let sets = [
        pb::DESCRIPTORS,
        tonic_types::pb::FILE_DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
    ];
    let mut pool = DescriptorPool::new();
    for set in sets {
        let mut set = FileDescriptorSet::decode(set).expect("descriptors");
        // Two of them have the same file under two names.
        set.file.retain(|file| {
            let is_known = |message: &str| {
                let name = format!("{}.{message}", file.package());
                pool.get_message_by_name(&name).is_some()
            };
            !file.message_type.iter().any(|it| is_known(it.name()))
        });
        pool.add_file_descriptor_set(set)
            .expect("the descriptors belong together");
    }
    pool
});

/// By their paths.
static METHODS: LazyLock<HashMap<String, Arc<MethodDescriptor>>> = LazyLock::new(|| {
    let methods = POOL.services().flat_map(|service| {
        let methods: Vec<_> = service.methods().collect();
        methods.into_iter()
    });
    let by_path = |method: MethodDescriptor| {
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        (path, Arc::new(method))
    };
    methods.map(by_path).collect()
});

/// The method of a path.
pub(super) fn method(path: &str) -> Option<Arc<MethodDescriptor>> {
    METHODS.get(path).cloned()
}

/// A message of the API by its full name.
pub(super) fn message(name: &str) -> Option<MessageDescriptor> {
    POOL.get_message_by_name(name)
}

/// The bytes of a message, from its JSON. The error names the field.
pub(super) fn from_json(kind: &MessageDescriptor, json: &[u8]) -> Result<Vec<u8>, Status> {
    if json.is_empty() {
        let why = "the body is empty; an empty message is {}";
        return Err(status::invalid_json("", why));
    }
    let mut track = Track::new();
    let mut reader = serde_json::Deserializer::from_slice(json);
    let tracked = serde_path_to_error::Deserializer::new(&mut reader, &mut track);
    let read = DynamicMessage::deserialize(kind.clone(), tracked);
    let read = read.and_then(|message| reader.end().map(|()| message));
    let message = read.map_err(|problem| refused(kind, &track.path(), &problem))?;
    Ok(message.encode_to_vec())
}

/// The JSON of a message, from its bytes. Fields with a default value are present, so that scripts
/// find every field; unset messages are absent.
pub(super) fn to_json(kind: &MessageDescriptor, message: &[u8]) -> Result<Vec<u8>, Status> {
    let options = SerializeOptions::new().skip_default_fields(false);
    let mut json = Vec::with_capacity(message.len() * 2);
    let mut writer = serde_json::Serializer::new(&mut json);
    let written = DynamicMessage::decode(kind.clone(), message)
        .map_err(|problem| problem.to_string())
        .and_then(|message| {
            let written = message.serialize_with_options(&mut writer, &options);
            written.map_err(|problem| problem.to_string())
        });
    written.map_err(|problem| status::not_json(&problem))?;
    Ok(json)
}

fn refused(kind: &MessageDescriptor, path: &Path, problem: &dyn Display) -> Status {
    let field = match path.iter().next_back() {
        None | Some(Segment::Unknown) => String::new(),
        Some(_) => path.to_string(),
    };
    let why = match hint(kind, path) {
        Some(hint) => format!("{problem}; {hint}"),
        None => problem.to_string(),
    };
    status::invalid_json(&field, &why)
}

/// What may stand at a place of a message.
fn hint(message: &MessageDescriptor, path: &Path) -> Option<String> {
    let mut kind = Kind::Message(message.clone());
    for segment in path {
        if let Segment::Map { key } = segment {
            let message = kind.as_message()?;
            let field = message.get_field_by_json_name(key);
            kind = field.or_else(|| message.get_field_by_name(key))?.kind();
        }
    }
    match kind {
        Kind::Message(message) if message.full_name() == "google.protobuf.Duration" => {
            Some("a duration is a text of seconds, such as \"30s\" or \"0.5s\"".to_owned())
        }
        Kind::Message(message) => {
            let fields = message.fields().map(|it| it.json_name().to_owned());
            let fields = fields.collect::<Vec<_>>().join(", ");
            Some(format!("the fields of {} are: {fields}", message.name()))
        }
        Kind::Enum(values) => {
            let names = values.values().map(|it| it.name().to_owned());
            Some(format!(
                "it is one of {}",
                names.collect::<Vec<_>>().join(", ")
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The details of errors are read by people, as JSON.
    #[test]
    fn the_details_of_errors_are_known() {
        for name in ["ErrorInfo", "BadRequest", "QuotaFailure", "RetryInfo"] {
            assert!(message(&format!("google.rpc.{name}")).is_some(), "{name}");
        }
        assert!(method("/lockkeeper.v1.LockService/TryAcquire").is_some());
        assert!(method("/grpc.health.v1.Health/Check").is_some());
    }

    #[test]
    fn a_mistake_is_said_to_be_in_a_field_only_if_it_is() {
        let kind = message("lockkeeper.v1.TryAcquireRequest").unwrap();
        let problem = |json: &[u8]| from_json(&kind, json).unwrap_err().message().to_owned();
        assert!(problem(b"{").starts_with("EOF while"), "{}", problem(b"{"));
        assert!(problem(b"{\"name\":5}").starts_with("name: "));
    }

    #[test]
    fn what_is_written_as_json_is_read_as_the_same() {
        let request = pb::TryAcquireRequest {
            name: "a \"b\"".to_owned(),
            mode: pb::LockMode::Fair.into(),
            lease: Some(prost_types::Duration {
                seconds: 1,
                nanos: 500_000_000,
            }),
            ..pb::TryAcquireRequest::default()
        };
        let kind = message("lockkeeper.v1.TryAcquireRequest").unwrap();
        let json = to_json(&kind, &request.encode_to_vec()).unwrap();
        let again = from_json(&kind, &json).unwrap();
        assert_eq!(pb::TryAcquireRequest::decode(&*again).unwrap(), request);
    }
}
