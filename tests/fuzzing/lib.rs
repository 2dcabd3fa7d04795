//! What comes from outside, as bytes that nobody has looked at: one function for each kind of it.
//! None of them may panic. `fuzz/` calls them with what a fuzzer makes up, [`tests`] with the seeds
//! of that and what is a little different from them.
//!
//! Not part of the product: only tests and the feature `fuzzing` have it.

mod answers;
mod callers;
mod ports;
#[cfg(test)]
mod tests;

use std::{env, ffi::OsString, fs, process, sync::OnceLock};

use lockkeeper_access::Access;
use lockkeeper_coordinator::{Coordinator, SessionId};
use lockkeeper_server::{
    self,
    config::{Flag, Settings, Sources, StoreUrl},
    grpc,
};
use lockkeeper_store::host::{
    self,
    embedded::{Clock, EmbeddedStore},
};

pub use answers::{lua_reply, redis_reply};
pub use callers::{certificate, jwt};
pub use ports::{admin_body, http_json, session_frames};

/// A target's name and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 12] = [
    ("admin_body", admin_body),
    ("certificate", certificate),
    ("config", config),
    ("grpc_timeout", grpc_timeout),
    ("http_json", http_json),
    ("jwt", jwt),
    ("lua_reply", lua_reply),
    ("redis_reply", redis_reply),
    ("request", request),
    ("resume_token", resume_token),
    ("session_frames", session_frames),
    ("url", url),
];

/// The defaults.
fn settings() -> &'static lockkeeper_coordinator::Config {
    static CONFIG: OnceLock<lockkeeper_coordinator::Config> = OnceLock::new();
    CONFIG.get_or_init(|| lockkeeper_server::coordinator_config(&Settings::default()))
}

/// A frame of a session, which carries every request that there is.
pub fn request(bytes: &[u8]) {
    static COORDINATOR: OnceLock<(tokio::runtime::Runtime, Coordinator, SessionId)> =
        OnceLock::new();
    let (_, coordinator, session) = COORDINATOR.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let inside = runtime.enter();
        let store = EmbeddedStore::new(Clock::system()).connect();
        let coordinator = Coordinator::start(settings().clone(), store);
        drop(inside);
        (runtime, coordinator, SessionId::random())
    });
    let access = Access::open();
    grpc::fuzzing::request(coordinator, &access, None, bytes);
    grpc::fuzzing::request(coordinator, &access, Some(session), bytes);
}

/// A file of settings; behind the first byte 0 variables of the environment, `KEY=VALUE` with a
/// byte 0 between them.
pub fn config(bytes: &[u8]) {
    let mut parts = bytes.split(|byte| *byte == 0);
    let path = env::temp_dir().join(format!("lockkeeper-fuzzing-{}", process::id()));
    fs::write(&path, parts.next().unwrap_or_default()).expect("a file");
    let words: Vec<_> = parts
        .filter_map(|it| std::str::from_utf8(it).ok())
        .collect();
    let pairs = words.iter().filter_map(|word| word.split_once('='));
    let sources = Sources {
        file: Some(path.clone()),
        environment: pairs
            .clone()
            .map(|(key, value)| (format!("LOCKKEEPER__{key}").into(), OsString::from(value)))
            .collect(),
        flags: Vec::new(),
    };
    // Without any they are the defaults, which is not worth half of the time.
    let flagged = (!words.is_empty()).then(|| Sources {
        flags: pairs
            .map(|(key, value)| Flag {
                flag: "--set".to_owned(),
                key: key.to_lowercase().replace("__", "."),
                value: value.to_owned(),
            })
            .collect(),
        ..Sources::default()
    });
    for sources in [Some(sources), flagged].into_iter().flatten() {
        match sources.load() {
            Ok(settings) => drop(settings.to_redacted_toml()),
            Err(refused) => assert!(!refused.to_string().is_empty()),
        }
    }
    let _ = fs::remove_file(path);
}

/// The address of a store.
pub fn url(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let shown = StoreUrl::from(text).redacted();
    assert_eq!(StoreUrl::from(shown.as_str()).redacted(), shown);
    host::redis::fuzzing::url(text);
}

/// A resume token.
pub fn resume_token(bytes: &[u8]) {
    lockkeeper_coordinator::fuzzing::resume_token(bytes, &settings().limits);
}

/// The value of `grpc-timeout`.
pub fn grpc_timeout(bytes: &[u8]) {
    grpc::fuzzing::grpc_timeout(bytes);
}
