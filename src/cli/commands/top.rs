//! The names that are contended most.

use std::{cmp::Reverse, collections::BTreeMap, io, time::Duration};

use lockkeeper_api::pb::{ContendedHolder, ContendedName, ListContentionRequest};
use serde_json::Value;

use super::ended::{Ended, reading};
use crate::{
    args::{By, TopArgs},
    client::{connect_admin, short},
    exit,
    output::{Format, say, top as words},
};

/// A table, or one line of JSON for each row of it.
pub(crate) async fn top(args: TopArgs) -> Ended {
    let format = args.common.output;
    let mut client = connect_admin(&args.common.server).await?;
    let request = ListContentionRequest {
        prefix: args.prefix,
    };
    let answer = client.list_contention(short(request)).await;
    let names = answer.map_err(reading)?.into_inner().names;
    if format == Format::Json {
        lines(args.by, &names, args.limit)?;
        return Ok(exit::OK);
    }
    if names.is_empty() {
        say("no name was waited for");
        return Ok(exit::OK);
    }
    let text = match args.by {
        By::Name => words::names(names.iter().take(args.limit)),
        By::Prefix => words::names(by_prefix(&names).iter().take(args.limit)),
        By::Holder => words::holders(&by_holder(&names), args.limit),
    };
    format.data(&text, &Value::Null)?;
    Ok(exit::OK)
}

fn lines(by: By, names: &[ContendedName], limit: usize) -> io::Result<()> {
    let sums = match by {
        By::Name => names.to_vec(),
        By::Prefix => by_prefix(names),
        By::Holder => {
            for (client_name, _, hold_count, held) in by_holder(names).into_iter().take(limit) {
                let holder = ContendedHolder {
                    client_name: client_name.to_owned(),
                    hold_count,
                    held: held.try_into().ok(),
                };
                Format::Json.answer("", "ContendedHolder", &holder)?;
            }
            return Ok(());
        }
    };
    for name in sums.iter().take(limit) {
        Format::Json.answer("", "ContendedName", name)?;
    }
    Ok(())
}

/// The sums of the names with the same beginning, the most time waited first.
fn by_prefix(names: &[ContendedName]) -> Vec<ContendedName> {
    let mut sums: BTreeMap<&str, ContendedName> = BTreeMap::new();
    for name in names {
        let end = name
            .name
            .find([':', '/', '.'])
            .map_or(name.name.len(), |at| at + 1);
        let sum = sums.entry(&name.name[..end]).or_default();
        sum.waiter_count += name.waiter_count;
        sum.wait_count += name.wait_count;
        sum.refusal_count += name.refusal_count;
        sum.hold_count += name.hold_count;
        sum.waited = words::sum(sum.waited, name.waited);
        sum.held = words::sum(sum.held, name.held);
        sum.holders.extend(name.holders.iter().cloned());
    }
    let rows = sums.into_iter().map(|(prefix, sum)| ContendedName {
        name: prefix.to_owned(),
        ..sum
    });
    let mut sums: Vec<_> = rows.collect();
    sums.sort_by_key(|sum| Reverse(words::std(sum.waited)));
    sums
}

/// The names, grants and time of each client name, the most time first.
fn by_holder(names: &[ContendedName]) -> Vec<(&str, usize, u64, Duration)> {
    let mut sums: BTreeMap<&str, (usize, u64, Duration)> = BTreeMap::new();
    for holder in names.iter().flat_map(|name| &name.holders) {
        let sum = sums.entry(&holder.client_name).or_default();
        sum.0 += 1;
        sum.1 += holder.hold_count;
        sum.2 += words::std(holder.held);
    }
    let sums = sums.into_iter();
    let mut sums: Vec<_> = sums
        .map(|(name, sum)| (name, sum.0, sum.1, sum.2))
        .collect();
    sums.sort_by_key(|sum| Reverse(sum.3));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str, waited: i64, client: &str) -> ContendedName {
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        ContendedName {
            name: name.to_owned(),
            wait_count: 1,
            waited: seconds(waited),
            holders: vec![ContendedHolder {
                client_name: client.to_owned(),
                hold_count: 2,
                held: seconds(waited),
            }],
            ..ContendedName::default()
        }
    }

    #[test]
    fn names_are_summed_by_prefix_and_by_holder() {
        let names = [
            name("orders:7", 1, "ci"),
            name("build", 5, "ci"),
            name("orders:8", 6, "cron"),
        ];
        let sums = by_prefix(&names);
        let counted: Vec<_> = sums
            .iter()
            .map(|it| (it.name.as_str(), it.wait_count))
            .collect();
        assert_eq!(counted, [("orders:", 2), ("build", 1)]);
        assert_eq!(words::std(sums[0].waited), Duration::from_secs(7));
        let expected = [
            ("ci", 2, 4, Duration::from_secs(6)),
            ("cron", 1, 2, Duration::from_secs(6)),
        ];
        assert_eq!(by_holder(&names), expected);
    }
}
