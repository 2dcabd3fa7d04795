//! What is counted by the beginnings of names: only those that are configured, so that names
//! cannot add labels. All other names are counted together. Without any, nothing is counted.

use std::{sync::atomic::AtomicU64, time::Duration};

use lockkeeper_base::metrics::{Label, Labels, OTHER_NAMES, Registrar};
use prometheus_client::metrics::{counter::Counter, family::Family};

use crate::{
    metrics::labels::{Outcome, Reason},
    types::LockName,
};

const NAME: &str = "prefix";

type Seconds = Counter<f64, AtomicU64>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    grants: Family<Labels, Counter>,
    waits: Family<Labels, Counter>,
    waited: Family<Labels, Seconds>,
    lost: Family<Labels, Counter>,
    /// The longest first; the last one is of all other names.
    each: Vec<OfPrefix>,
}

/// The counters of one prefix.
#[derive(Debug)]
struct OfPrefix {
    prefix: String,
    grants: Vec<Counter>,
    waits: Counter,
    waited: Seconds,
    lost: Vec<Counter>,
}

// === impl Prefixes ===

impl Prefixes {
    /// The counters of these prefixes, all at zero.
    pub(crate) fn new(prefixes: &[String]) -> Self {
        let mut all = Self::default();
        if prefixes.is_empty() {
            return all;
        }
        let mut prefixes = prefixes.to_vec();
        prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
        let others = ("", OTHER_NAMES);
        let labelled = prefixes.iter().map(|it| (it.as_str(), it.as_str()));
        all.each = labelled
            .chain([others])
            .map(|(prefix, label)| all.of_prefix(prefix, label))
            .collect();
        all
    }

    pub(crate) fn register(&self, to: &mut Registrar<'_>) {
        let Self {
            grants,
            waits,
            waited,
            lost,
            ..
        } = self;
        to.add(
            "prefix_grants",
            "Acquires that ended, by the prefix of the name and by how",
            grants.clone(),
        );
        to.add(
            "prefix_waits",
            "Waits that began, by the prefix of the name",
            waits.clone(),
        );
        to.add(
            "prefix_waited_seconds",
            "Time waited, of waits that have ended, by the prefix of the name",
            waited.clone(),
        );
        to.add(
            "prefix_leases_lost",
            "Grants that sessions lost, by the prefix of the name and by reason",
            lost.clone(),
        );
    }

    pub(crate) fn ended(&self, name: &LockName, outcome: Outcome) {
        if let Some(of) = self.of(name) {
            of.grants[outcome.index()].inc();
        }
    }

    pub(crate) fn wait_began(&self, name: &LockName) {
        if let Some(of) = self.of(name) {
            of.waits.inc();
        }
    }

    pub(crate) fn wait_ended(&self, name: &LockName, waited: Duration) {
        if let Some(of) = self.of(name) {
            of.waited.inc_by(waited.as_secs_f64());
        }
    }

    pub(crate) fn lost(&self, name: &LockName, reason: Reason) {
        if let Some(of) = self.of(name) {
            of.lost[reason.index()].inc();
        }
    }

    fn of(&self, name: &LockName) -> Option<&OfPrefix> {
        let name = name.public();
        self.each.iter().find(|of| name.starts_with(&of.prefix))
    }

    fn of_prefix(&self, prefix: &str, label: &str) -> OfPrefix {
        let labels: Labels = vec![(NAME, label.to_owned())];
        OfPrefix {
            prefix: prefix.to_owned(),
            grants: by::<Outcome>(&self.grants, &labels),
            waits: self.waits.get_or_create_owned(&labels),
            waited: self.waited.get_or_create_owned(&labels),
            lost: by::<Reason>(&self.lost, &labels),
        }
    }
}

/// A counter with these labels for each value of one more.
fn by<L: Label>(family: &Family<Labels, Counter>, labels: &Labels) -> Vec<Counter> {
    let values = L::VALUES.iter().map(|value| {
        let mut labels = labels.clone();
        labels.push((L::NAME, (*value).to_owned()));
        family.get_or_create_owned(&labels)
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::tests::limits;

    #[test]
    fn a_name_counts_with_the_longest_prefix_that_it_begins_with() {
        let prefixes = ["jobs/", "jobs/nightly/", "é"].map(str::to_owned);
        let prefixes = Prefixes::new(&prefixes);
        let label = |name: &str| {
            let name = LockName::parse(name, &limits()).unwrap();
            let of = prefixes.of(&name).unwrap();
            of.prefix.clone()
        };
        assert_eq!(label("jobs/nightly/a"), "jobs/nightly/");
        assert_eq!(label("jobs/a"), "jobs/");
        assert_eq!(label("état"), "é");
        assert_eq!(label("job"), "");
    }

    #[test]
    fn nothing_is_counted_without_prefixes() {
        let prefixes = Prefixes::new(&[]);
        let name = LockName::parse("a", &limits()).unwrap();
        assert!(prefixes.of(&name).is_none());
    }
}
