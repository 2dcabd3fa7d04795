//! The doors of this host for `tests/fuzzing`.

use deadpool_redis::redis::parse_redis_value;

use super::{
    ConfigError, RedisConfig,
    endpoint::Endpoint,
    reply, resp, target,
    url::{ClusterUrl, Kind, SentinelUrl, kind},
};
use crate::host::{HostError, Value};

/// An answer on the wire, as a script's caller gets it; none if it is no answer.
pub fn reply(bytes: &[u8]) -> Option<Result<Value, HostError>> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = reply::info_field(text, "redis_version");
        let _ = target::refuse_old(text);
    }
    let value = parse_redis_value(bytes).ok();
    if let Ok(Some((read, end))) = resp::answer(bytes)
        && let Ok(expected) = parse_redis_value(&bytes[..end])
    {
        // As text, because a number may be none.
        assert_eq!(format!("{read:?}"), format!("{expected:?}"));
    }
    value.map(reply::value)
}

/// The address of a store, in each of its grammars. Why it is refused repeats nothing of it.
pub fn url(url: &str) {
    let refused = match kind(url) {
        Kind::Cluster => ClusterUrl::parse(url).err(),
        Kind::Sentinel => SentinelUrl::parse(url).err(),
        Kind::Single => {
            let config = RedisConfig {
                url: url.to_owned(),
                ..RedisConfig::default()
            };
            Endpoint::new(&config).err()
        }
    };
    match refused {
        None | Some(ConfigError::Url { .. }) => {}
        Some(other) => panic!("{other}"),
    }
}
