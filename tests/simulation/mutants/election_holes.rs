//! The texts that are taken out of the scripts of elections.

use lockkeeper_store::script::catalog::{
    ELECTION_INSPECT, ELECTION_PROCLAIM, FAIR_ACQUIRE, FAIR_FIRST,
};

use super::Hole;

pub(super) const ELECTION_HOLES: [Hole; 12] = [
    Hole {
        name: "a proclamation does not look at the term",
        scripts: &[&ELECTION_PROCLAIM],
        taken: "elseif not field or newest ~= term then",
        put: "elseif not field then",
    },
    Hole {
        name: "a proclamation does not look at the holder",
        scripts: &[&ELECTION_PROCLAIM],
        taken: "local field = fields[1] and owner or grant_field(lock, owner)",
        put: "local field = owner",
    },
    Hole {
        name: "the newest value is recorded first",
        scripts: &[&ELECTION_PROCLAIM],
        taken: "redis.call('rpush', record,",
        put: "redis.call('lpush', record,",
    },
    Hole {
        name: "a revision is left out",
        scripts: &[&ELECTION_PROCLAIM],
        taken: "revision = revision and revision + 1",
        put: "revision = revision and revision + 2",
    },
    Hole {
        name: "a value is recorded twice",
        scripts: &[&ELECTION_PROCLAIM],
        taken: "publish_to(ARGV[6], ARGV[7], '1')",
        put: "redis.call('rpush', record, string.format('%.0f', revision) .. rest)\n\
            revision = revision + 1",
    },
    Hole {
        name: "a value takes the place of the one before",
        scripts: &[&ELECTION_PROCLAIM],
        taken: "publish_to(ARGV[6], ARGV[7], '1')",
        put: "revision = last and revision - 1 or revision\nredis.call('unlink', record)",
    },
    Hole {
        name: "an observer reads the newest value only",
        scripts: &[&ELECTION_INSPECT],
        taken: "math.min(new, VALUES_MAX)",
        put: "1",
    },
    Hole {
        name: "a leader leads for ever",
        scripts: &[&ELECTION_INSPECT],
        taken: "redis.call('get', counter) == term and redis.call('hexists', lock, field)",
        put: "1",
    },
    Hole {
        name: "a transfer puts its candidate last",
        scripts: &[&FAIR_FIRST],
        taken: "redis.call('lpush', q.queue, owner)\nredis.call('lrem', q.queue, -1, owner)",
        put: "redis.call('lrem', q.queue, 1, owner)\nredis.call('rpush', q.queue, owner)",
    },
    Hole {
        name: "a transfer takes the lock from the leader, which goes on unfenced",
        scripts: &[&FAIR_FIRST],
        taken: "if redis.call('exists', KEYS[1]) == 0 then",
        put: "if redis.call('del', KEYS[1]) == 1 then",
    },
    Hole {
        name: "a transfer loses its candidate",
        scripts: &[&FAIR_FIRST],
        taken: "redis.call('lpush', q.queue, owner)\n",
        put: "",
    },
    Hole {
        name: "a second candidate is elected beside the leader",
        scripts: &[&FAIR_ACQUIRE],
        taken: "seen.open = seen.open and (not seen.head or seen.head == owner)",
        put: "seen.open = true",
    },
];
