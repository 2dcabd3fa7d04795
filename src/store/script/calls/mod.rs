//! One function per script that every store of a quorum runs too: typed arguments, typed replies.

pub(super) mod encoding;
mod ended;
mod force;
mod hand_over;
mod hold;
mod host_scripts;
mod inspect;
mod lock;
mod names;
mod native;
mod note;
mod ownership;
mod partitions;
mod renew;
mod seen_counters;
mod verbs;
mod vote;
mod waits;

pub use encoding::wakes;
pub use force::{Forced, ForcedRecord};
pub use hold::{Hold, Mode};
pub(super) use hold::{acquire_keys, fair_keys, give_back_keys};
pub(super) use host_scripts::HostScripts;
pub use inspect::{Holder, Inspected};
pub use lock::{Acquired, Attempt, Refusal, Released};
pub use names::NameKind;
pub use note::Note;
pub(super) use note::take_note;
pub use ownership::Ownership;
pub(super) use ownership::ownership;
pub(super) use partitions::{Answer, grouped};
pub use partitions::{Batch, StoreClock};
pub(super) use renew::not_renewed;
pub use renew::{Renewal, Renewals, Renewed};
pub use waits::SharedWaits;
