//! The rows of the table in `docs/robustness/abuse.md`. What each did before is from the
//! review of release 0.1.0.

use futures::FutureExt as _;

use crate::{
    attacks::{connections, http2, locks, logs, permits, sessions, store, strangers, watchers},
    row::Row,
    scene::Log,
};

macro_rules! rows {
    ($($attack:path as $name:literal: $text:literal, $before:literal
        $(, after $plant:path)? $(, log in $log:ident)? $(, untimed $why:literal)?;)*) => {
        /// All of them.
        pub(crate) const ROWS: &[Row] = &[$(Row {
            name: $name,
            text: $text,
            before: $before,
            plant: option!($(|target| $plant(target).boxed())?),
            attack: |target| $attack(target).boxed(),
            log: log!($($log)?),
            untimed: option!($($why)?),
        }),*];
    };
}

macro_rules! option {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

macro_rules! log {
    () => {
        Log::File
    };
    ($log:ident) => {
        Log::$log
    };
}

rows! {
    locks::readers_described as "readers_described":
        "a tenant's readers pile on one lock, and 4 tasks describe it",
        "6 of 6 calls `UNAVAILABLE`; a 6 s lease lost after 7.9 s";
    permits::described as "permits_described":
        "a tenant's permits pile on one semaphore, and 4 tasks describe it",
        "572 ms of Redis for each";
    permits::swept as "permits_swept":
        "a tenant's permits expire all at once",
        "one call kept Redis 1,569 ms";
    locks::waiters as "waiters":
        "a tenant waits for one lock as often as it may, again and again",
        "no quota; 12 kB each";
    locks::many_at_once as "many_at_once":
        "64 tasks take 250 locks at once, in a loop",
        "not measured";
    locks::lists as "lists":
        "16 tasks list a tenant's locks, and sessions",
        "not measured";
    store::huge_holder_described as "huge_holder_described":
        "a holder of 200 MB, planted in Redis, is described and listed",
        "185 → 802 MB on one Describe",
        after store::huge_holder_planted,
        untimed "Redis itself reads 200 MB, and who writes to its keys can stop it anyway";
    store::published as "published":
        "messages flood the channel of a lock that a tenant waits for",
        "2,961 scripts in 3 s";
    sessions::of_the_ruleless as "sessions_of_the_ruleless":
        "an identity without a rule opens sessions on 5 connections",
        "191 → 1,304 MB";
    sessions::up_to_the_quota as "sessions_up_to_the_quota":
        "a tenant opens as many sessions as it may, on 5 connections",
        "no quota; 14 kB each";
    sessions::forged as "forged_resumes":
        "64 tasks resume a session with forged tokens",
        "refused; not measured";
    watchers::of_one_tenant as "watchers":
        "a tenant watches its prefix 64 times and reads nothing",
        "no operator could watch";
    strangers::health_watches as "health_watches":
        "strangers watch the health 20,000 times on each of 4 connections",
        "killed in 9.2 s by 5.5 MB";
    strangers::unfinished_checks as "unfinished_checks":
        "strangers check the health with messages that end never",
        "32 → 1,318 MB by 300 calls";
    strangers::unfinished_bodies as "unfinished_bodies":
        "an identity without a rule sends bodies that end never",
        "100 calls took 400 MB";
    strangers::long_paths as "long_paths":
        "strangers call methods with names of 14 kB",
        "160 MB of log in 3.2 s";
    logs::unread as "log_unread":
        "the log's reader stops, and strangers call",
        "every call and `/livez` hung",
        log in Pipe;
    http2::rapid_reset as "rapid_reset":
        "calls are reset as soon as they are made",
        "the connection was ended";
    http2::continuations as "continuations":
        "headers go on without an end",
        "the connection was ended";
    connections::half_handshakes as "half_handshakes":
        "connections are silent, or send half of a preface or of headers",
        "not measured";
    connections::half_requests as "half_requests":
        "half requests on the admin port",
        "took all files: no new client, no `/livez`";
}
