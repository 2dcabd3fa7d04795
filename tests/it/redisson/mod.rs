//! What Redisson's own tests assert of its locks, one file for each of its test classes.
//! docs/redisson/tests.md has the table of both.

mod parties;
mod stories;

mod expiration;
mod fair_lock;
mod fenced_lock;
mod latch;
mod lock;
mod multi_lock;
mod read_write_lock;
mod semaphore;
mod spin_lock;
