//! Contention in words.

use std::time::Duration;

use lockkeeper_api::pb::ContendedName;

use super::{
    table::table,
    words::{duration, shown},
};

/// A row for each name.
pub(crate) fn names<'a>(names: impl Iterator<Item = &'a ContendedName>) -> String {
    let heads = [
        "NAME", "WAITING", "WAITS", "WAITED", "REFUSED", "HOLDS", "HELD", "LONGEST",
    ];
    table(heads, names.map(row))
}

fn row(name: &ContendedName) -> [String; 8] {
    let longest = name.holders.iter().max_by_key(|holder| std(holder.held));
    [
        shown(&name.name).into_owned(),
        name.waiter_count.to_string(),
        name.wait_count.to_string(),
        duration(name.waited.as_ref()),
        name.refusal_count.to_string(),
        name.hold_count.to_string(),
        duration(name.held.as_ref()),
        longest.map_or_else(String::new, |it| shown(&it.client_name).into_owned()),
    ]
}

/// A row for each client name: the names that it held, its grants, and the time.
pub(crate) fn holders(holders: &[(&str, usize, u64, Duration)], limit: usize) -> String {
    let rows = holders
        .iter()
        .take(limit)
        .map(|(client, names, holds, held)| {
            let held = prost_types::Duration::try_from(*held).ok();
            let client = if client.is_empty() { "-" } else { client };
            [
                shown(client).into_owned(),
                names.to_string(),
                holds.to_string(),
                duration(held.as_ref()),
            ]
        });
    table(["HOLDER", "NAMES", "HOLDS", "HELD"], rows)
}

/// Zero if it is unset.
pub(crate) fn std(given: Option<prost_types::Duration>) -> Duration {
    given.and_then(|it| it.try_into().ok()).unwrap_or_default()
}

/// The sum of two durations.
pub(crate) fn sum(
    one: Option<prost_types::Duration>,
    other: Option<prost_types::Duration>,
) -> Option<prost_types::Duration> {
    (std(one) + std(other)).try_into().ok()
}
