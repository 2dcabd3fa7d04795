//! Every seed of the fuzzer, and what is a little different from it, on every run of the tests.

use std::{fs, path::PathBuf};

use proptest::{
    collection::vec,
    prelude::{Strategy, any, prop_oneof},
    sample::Index,
    test_runner::{Config, TestRunner},
};

use super::TARGETS;

/// Variants of the seeds of one target; `FUZZ_VARIANTS` says another number.
const VARIANTS: u32 = 3000;

/// Of those that run whole sessions or calls.
const SESSION_VARIANTS: u32 = VARIANTS / 10;

/// A change of some bytes.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, Index),
    /// Puts what stands at one place at another.
    Copy(Index, Index, Index),
}

// === impl Change ===

impl Change {
    fn any() -> impl Strategy<Value = Self> {
        let at = any::<Index>;
        prop_oneof![
            (at(), any::<u8>()).prop_map(|(at, byte)| Self::Flip(at, byte)),
            (at(), vec(any::<u8>(), 1..8)).prop_map(|(at, bytes)| Self::Insert(at, bytes)),
            (at(), at()).prop_map(|(from, to)| Self::Remove(from, to)),
            (at(), at(), at()).prop_map(|(from, to, at)| Self::Copy(from, to, at)),
        ]
    }

    fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |index: &Index| index.index(bytes.len() + 1);
        let range = |from: &Index, to: &Index| {
            let (from, to) = (place(from), place(to));
            from.min(to)..from.max(to)
        };
        match self {
            Self::Flip(at, change) => {
                let at = place(at);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= change;
                }
            }
            Self::Insert(at, more) => {
                let at = place(at);
                bytes.splice(at..at, more.iter().copied());
            }
            Self::Remove(from, to) => drop(bytes.drain(range(from, to))),
            Self::Copy(from, to, at) => {
                let (piece, at) = (bytes[range(from, to)].to_vec(), place(at));
                bytes.splice(at..at, piece);
            }
        }
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let files = fs::read_dir(folder.join(target)).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn replay(name: &str) {
    replay_some(name, VARIANTS);
}

fn replay_some(name: &str, variants: u32) {
    let wanted = std::env::var("FUZZ_VARIANTS").ok();
    let (_, target) = TARGETS.iter().find(|(it, _)| *it == name).unwrap();
    let seeds = seeds(name);
    assert!(!seeds.is_empty());
    for seed in &seeds {
        target(seed);
    }
    let variant = (proptest::sample::select(seeds), vec(Change::any(), 1..6));
    let config = Config {
        cases: wanted.map_or(variants, |it| it.parse().expect("a number")),
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let ran = runner.run(&variant, |(mut bytes, changes)| {
        for change in changes {
            change.apply(&mut bytes);
        }
        target(&bytes);
        Ok(())
    });
    assert!(ran.is_ok(), "{name}: {ran:?}");
}

macro_rules! replays {
    ($(#[test] fn $test:ident() = $replay:expr;)*) => {
        $(#[test]
        fn $test() {
            $replay;
        })*
    };
}

replays! {
    #[test] fn requests_of_the_admin_port_are_answered() = replay("admin_body");
    #[test] fn certificates_name_a_caller_or_nobody() = replay("certificate");
    #[test] fn tokens_name_a_caller_or_are_refused() = replay("jwt");
    #[test] fn calls_over_http_are_answered() = replay_some("http_json", SESSION_VARIANTS);
    #[test] fn sessions_end_with_their_stream() = replay_some("session_frames", SESSION_VARIANTS);
    #[test] fn settings_are_taken_or_refused() = replay("config");
    #[test] fn time_limits_of_calls_are_taken_or_left() = replay("grpc_timeout");
    #[test] fn what_scripts_return_means_something_or_is_refused() = replay("lua_reply");
    #[test] fn what_redis_answers_means_something_or_is_refused() = replay("redis_reply");
    #[test] fn requests_are_taken_or_refused() = replay("request");
    #[test] fn resume_tokens_are_taken_or_refused() = replay("resume_token");
    #[test] fn addresses_are_taken_or_refused() = replay("url");
}

/// A target that nobody replays would rot.
#[test]
fn every_target_has_seeds_and_a_file() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let folders = fs::read_dir(root.join("seeds")).unwrap();
    let mut folders: Vec<_> = folders
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    assert_eq!(folders, TARGETS.map(|(name, _)| name));
    for (name, _) in TARGETS {
        let text = fs::read_to_string(root.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(text.contains(&format!("fuzzing::{name}(")), "{name}");
    }
}
