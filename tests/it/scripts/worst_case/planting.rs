//! What a tenant may have made before a limit existed, or another program did.

use lockkeeper_store::script::keys;

/// What all cases are about.
pub(super) const NAME: &str = "n";

pub(super) const READERS: u32 = 60_000;
pub(super) const TAKEN: u32 = 100_000;
pub(super) const EXPIRED: u32 = 62_000;
pub(super) const WAITERS: u32 = 100_000;

/// A millisecond that has not come, and one that has passed.
pub(super) const LATER: u64 = 9_000_000_000_000;
pub(super) const LONG_AGO: u64 = 1000;

/// A read lock with many owners. ARGV: from, to, '1' if our set of readers has them, the end of
/// their leases, '1' if their holds live.
const PLANT_READERS: &str = "
redis.call('hset', KEYS[1], 'mode', 'read')
for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local owner = '8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:' .. i
  redis.call('hset', KEYS[1], owner, '1')
  if ARGV[3] == '1' then redis.call('zadd', KEYS[2], ARGV[4], owner) end
  if ARGV[5] == '1' then
    redis.call('set', KEYS[3] .. ':' .. owner .. ':rwlock_timeout:1', '1', 'px', 3600000)
  end
end
redis.call('pexpire', KEYS[1], 3600000)
return 1";

/// A semaphore with many permits taken. ARGV: from, to, the end of their leases, and what is free.
const PLANT_PERMITS: &str = "
redis.call('set', KEYS[1], ARGV[4])
redis.call('set', KEYS[4], 'semaphore')
for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  redis.call('zadd', KEYS[2], ARGV[3], string.format('%016d', i))
  local digits = string.gsub(string.format('%016d', i), '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end)
  redis.call('hset', KEYS[3], digits, 'o' .. i % 7)
end
redis.call('pexpire', KEYS[3], 3600000)
return 1";

/// A queue with many waiters. ARGV: from, to, the time to which they live, '1' if ours.
const PLANT_QUEUE: &str = "
for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  redis.call('rpush', KEYS[1], 'w' .. i)
  redis.call('zadd', KEYS[2], ARGV[3], 'w' .. i)
  if ARGV[4] == '1' then redis.call('zadd', KEYS[3], ARGV[3], 'w' .. i) end
end
return 1";

/// A command that makes what a case is about.
pub(super) type Planting = Vec<Vec<u8>>;

/// `count` elements in portions, so that no single command takes long.
fn planting(script: &str, keys: &[bytes::Bytes], count: u32, args: &[&str]) -> Vec<Planting> {
    const PORTION: u32 = 1000;
    let portions = (1..=count).step_by(PORTION as usize);
    let commands = portions.map(|from| {
        let to = (from + PORTION - 1).min(count);
        let mut words = vec![b"EVAL".to_vec(), script.into()];
        words.push(keys.len().to_string().into_bytes());
        words.extend(keys.iter().map(|key| key.to_vec()));
        words.extend([from, to].map(|number| number.to_string().into_bytes()));
        words.extend(args.iter().map(|arg| arg.as_bytes().to_vec()));
        words
    });
    commands.collect()
}

pub(super) fn readers([ours, ends, live]: [&str; 3]) -> Vec<Planting> {
    let keys = [
        keys::lock(NAME).to_bytes(),
        keys::readers(NAME).to_bytes(),
        keys::read_holds_base(NAME).to_bytes(),
    ];
    planting(PLANT_READERS, &keys, READERS, &[ours, ends, live])
}

pub(super) fn permits(taken: u32, ends: u64, free: u32) -> Vec<Planting> {
    let keys = [
        keys::lock(NAME).to_bytes(),
        keys::permit_leases(NAME).to_bytes(),
        keys::permit_owners(NAME).to_bytes(),
        keys::kind(NAME).to_bytes(),
    ];
    let (ends, free) = (ends.to_string(), free.to_string());
    planting(PLANT_PERMITS, &keys, taken, &[&ends, &free])
}

pub(super) fn queue(ends: u64, ours: bool) -> Vec<Planting> {
    let keys = [
        keys::queue(NAME).to_bytes(),
        keys::queue_deadlines(NAME).to_bytes(),
        keys::vouched_waiters(NAME).to_bytes(),
    ];
    let (ends, ours) = (ends.to_string(), u8::from(ours).to_string());
    planting(PLANT_QUEUE, &keys, WAITERS, &[&ends, &ours])
}
