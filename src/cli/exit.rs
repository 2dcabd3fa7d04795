//! The exit codes, in one place. From 64 on they are those of `sysexits.h`.

/// Done.
pub const OK: u8 = 0;
/// Expected, but not what was wished: not granted, or not the owner.
pub const NOT_GRANTED: u8 = 1;
/// The command line, or a value in it, is wrong.
pub const USAGE: u8 = 64;
/// What was measured is not to be believed: a lock did what it must not do, or a call failed as
/// none should.
pub const VOID: u8 = 65;
/// The coordinator or its store cannot be reached, or refuses work for now.
pub const UNAVAILABLE: u8 = 69;
/// A defect.
pub const INTERNAL: u8 = 70;
/// Nobody knows whether it was done.
pub const OUTCOME_UNKNOWN: u8 = 75;
/// The lock was lost while the command ran, and the command was stopped.
pub const LOST: u8 = 76;
/// No credentials, or not allowed.
pub const DENIED: u8 = 77;
/// The settings cannot be used.
pub const CONFIG: u8 = 78;
/// The command cannot be executed; as shells have it.
pub const CANNOT_EXECUTE: u8 = 126;
/// The command was not found; as shells have it.
pub const COMMAND_NOT_FOUND: u8 = 127;

/// How a process ends that was ended by a signal; as shells have it.
pub fn by_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// For the end of `--help`.
pub const HELP: &str = "\
Exit codes:
  0    done
  1    not granted: held by another, the wait ran out, or not the owner
  64   wrong usage, a value that the coordinator refuses, another kind of lock under this
       name, or a reader that asks to write
  69   the coordinator or its store is unavailable
  70   internal error
  75   outcome unknown: it may have been done; repeat it with the same --request-id
  77   no credentials, or not allowed
  78   unusable settings (serve)";

/// For the end of `run --help`.
pub const RUN_HELP: &str = "\
Exit codes:
  that of CMD; 128 + N if signal N ended it, or ended the wait for the lock
  1    not granted: held by another, or the wait ran out (-E sets another)
  64   wrong usage, a value that the coordinator refuses, or another kind of lock under this
       name
  69   the coordinator or its store is unavailable; CMD was not started
  70   internal error; CMD was not started
  75   outcome unknown; CMD was not started
  76   the lock was lost; CMD was stopped, or not started
  77   no credentials, or not allowed; CMD was not started
  126  CMD cannot be executed
  127  CMD was not found";

/// For the end of `bench --help`.
pub const BENCH_HELP: &str = "\
Exit codes:
  0    done
  64   wrong usage
  65   the run is void: a lock was held twice at once or was lost, a token did not grow, or a
       call failed as none should
  69   the coordinator is unavailable
  70   internal error
  128 + N if signal N ended the run; what was measured until then is printed";
