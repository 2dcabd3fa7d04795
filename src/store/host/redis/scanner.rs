//! Walks through the keys of one server, by `SCAN` in a script that leaves out long keys. On a
//! connection of its own: a long answer must not hold up what shares the others.

use std::{fmt, time::Duration};

use bytes::Bytes;
use deadpool_redis::{
    Pool,
    redis::{self, Value, aio::ConnectionLike as _, cmd},
};
use parking_lot::Mutex;

use super::{reply, target::Target};
use crate::host::HostError;

/// One walk at a time and server; others wait.
const CONNECTIONS: usize = 1;

/// Longer keys are not ours, and are not sent: a key in Redis may have 512 MB.
const KEY_BYTES_MAX: usize = 4096;

/// `SCAN` with the given arguments after the first, which is the longest key to send.
const SCAN: &str = "
local page, keys = redis.call('scan', unpack(ARGV, 2)), {}
for _, key in ipairs(page[2]) do
  if #key <= tonumber(ARGV[1]) then keys[#keys + 1] = key end
end
return {page[1], keys}";

/// Characters with a meaning in a pattern.
const SPECIAL: &[u8] = b"*?[]\\";

pub(super) struct Scanner {
    target: Target,
    answered_in: Duration,
    /// Connections to the server at this address, after the first call.
    pool: Mutex<Option<(String, Pool)>>,
}

// === impl Scanner ===

impl Scanner {
    /// Nothing is opened before the first call.
    pub(super) fn new(target: Target, answered_in: Duration) -> Self {
        let pool = Mutex::default();
        Self {
            target,
            answered_in,
            pool,
        }
    }

    /// Some keys that contain these bytes, and where to go on; 0: that was all.
    pub(super) async fn scan(
        &self,
        position: u64,
        containing: &[u8],
        work: u32,
    ) -> Result<(Vec<Bytes>, u64), HostError> {
        let pool = self.pool().map_err(HostError::Unavailable)?;
        let mut connection = pool.get().await.map_err(unavailable)?;
        let mut scan = cmd("EVAL");
        scan.arg(SCAN).arg(0).arg(KEY_BYTES_MAX).arg(position);
        if !containing.is_empty() {
            scan.arg("MATCH").arg(pattern(containing));
        }
        scan.arg("COUNT").arg(work);
        // It changes nothing, so whatever went wrong it may be asked again.
        let answer = connection.req_packed_command(&scan).await;
        match answer.map_err(unavailable)? {
            Value::ServerError(error) => Err(reply::refusal(&error)),
            answer => redis::from_redis_value::<(u64, Vec<Vec<u8>>)>(answer)
                .map(|(next, keys)| (keys.into_iter().map(Bytes::from).collect(), next))
                .map_err(unavailable),
        }
    }

    fn pool(&self) -> Result<Pool, String> {
        let endpoint = self.target.endpoint()?;
        let address = endpoint.address();
        let mut known = self.pool.lock();
        match &*known {
            Some((at, pool)) if *at == address => Ok(pool.clone()),
            _ => {
                let pool = endpoint
                    .pool(CONNECTIONS, self.answered_in)
                    .map_err(|error| error.to_string())?;
                *known = Some((address, pool.clone()));
                Ok(pool)
            }
        }
    }
}

impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner").finish_non_exhaustive()
    }
}

fn unavailable(error: impl fmt::Display) -> HostError {
    HostError::Unavailable(error.to_string())
}

/// The pattern of keys that contain these bytes as they are.
fn pattern(containing: &[u8]) -> Vec<u8> {
    let mut pattern = vec![b'*'];
    for byte in containing {
        if SPECIAL.contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'*');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_is_no_pattern() {
        assert_eq!(pattern(b"a*[b]?\\"), br"*a\*\[b\]\?\\*");
    }
}
