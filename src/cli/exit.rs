//! The exit codes. From 64 on they are those of `sysexits.h`.

/// Done.
pub const OK: u8 = 0;
/// An expected answer, but not the wanted one: not granted, or not the owner.
pub const NOT_GRANTED: u8 = 1;
/// The command line, or a value in it, is wrong.
pub const USAGE: u8 = 64;
/// The measurement is void: a lock broke its guarantees, or a call failed that must not.
pub const VOID: u8 = 65;
/// The coordinator or its store is unreachable or overloaded.
pub const UNAVAILABLE: u8 = 69;
/// A defect.
pub const INTERNAL: u8 = 70;
/// The operation may or may not have been done.
pub const OUTCOME_UNKNOWN: u8 = 75;
/// The lock was lost while the command ran, and the command was stopped.
pub const LOST: u8 = 76;
/// No credentials, or not allowed.
pub const DENIED: u8 = 77;
/// The settings are unusable.
pub const CONFIG: u8 = 78;
/// The command cannot be executed, as in shells.
pub const CANNOT_EXECUTE: u8 = 126;
/// The command was not found, as in shells.
pub const COMMAND_NOT_FOUND: u8 = 127;

/// The exit code of a process ended by a signal, as in shells.
pub fn by_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// The end of `--help`.
pub const HELP: &str = "\
Exit codes:
  0    done
  1    not granted (held by another owner, or the wait timed out), or not the owner
  64   wrong usage, a value that the coordinator refuses, another kind of lock under this
       name, or a write lock for an owner that holds the read lock
  69   the coordinator or its store is unavailable
  70   internal error
  75   outcome unknown: the operation may have taken effect; retry with the same --request-id
  77   no credentials, or not allowed
  78   invalid settings (serve)";

/// The end of `run --help`.
pub const RUN_HELP: &str = "\
Exit codes:
  that of CMD; 128 + N if signal N ended it, or ended the wait for the lock
  1    not granted: held by another owner, or the wait timed out (-E sets another code)
  64   wrong usage, a value that the coordinator refuses, or another kind of lock under this
       name
  69   the coordinator or its store is unavailable; CMD was not started
  70   internal error; CMD was not started
  75   outcome unknown; CMD was not started
  76   the lock was lost; CMD was stopped, or not started
  77   no credentials, or not allowed; CMD was not started
  126  CMD cannot be executed
  127  CMD was not found";

/// The end of `bench --help`.
pub const BENCH_HELP: &str = "\
Exit codes:
  0    done
  64   wrong usage
  65   the run is void: a lock was held twice at once or was lost, a token did not grow, or a
       call failed unexpectedly
  69   the coordinator is unavailable
  70   internal error
  128 + N if signal N ended the run; the measurement until then is printed";
