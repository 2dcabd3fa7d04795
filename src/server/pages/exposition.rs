//! What the overview needs of the exposed metrics, so that nothing is counted twice.

use lockkeeper_base::metrics::PREFIX;

/// What stands before the exemplar of a sample.
const EXEMPLAR: &str = " # {";

/// A sample without its exemplar.
pub(crate) fn without_exemplar(line: &str) -> &str {
    line.split_once(EXEMPLAR).map_or(line, |(sample, _)| sample)
}

/// What was counted since the process began.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) granted: f64,
    pub(super) lost: f64,
    /// Renewals by the time they were sent late.
    pub(super) lag: Buckets,
    /// Waits by their duration.
    pub(super) waits: Buckets,
    /// Calls of the store by their duration.
    pub(super) store: Buckets,
    pub(super) token_regressions: f64,
    pub(super) counters_refused: f64,
    pub(super) may_evict: f64,
    pub(super) rights_missing: f64,
}

/// Cumulative counts by upper bound in seconds, as a histogram shows them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Buckets(Vec<(f64, f64)>);

// === impl Totals ===

impl Totals {
    /// Reads the text format.
    pub(super) fn read(exposition: &str) -> Self {
        let mut totals = Self::default();
        for (name, labels, value) in exposition.lines().filter_map(sample) {
            let own = name.strip_prefix(PREFIX);
            match own.and_then(|own| own.strip_prefix('_')) {
                Some("grants_total") if labels.contains("result=\"granted\"") => {
                    totals.granted += value;
                }
                Some("leases_lost_total") => totals.lost += value,
                Some("renewal_lag_seconds_bucket") => totals.lag.add(labels, value),
                Some("wait_seconds_bucket") => totals.waits.add(labels, value),
                Some("store_call_seconds_bucket") => totals.store.add(labels, value),
                Some("fencing_token_regressions_total") => totals.token_regressions += value,
                Some("fencing_counters_refused_total") => totals.counters_refused += value,
                Some("store_may_evict") => totals.may_evict += value,
                Some("store_rights_missing") => totals.rights_missing += value,
                _ => {}
            }
        }
        totals
    }
}

/// The name, the labels and the value of a line.
fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let (head, value) = without_exemplar(line).rsplit_once(' ')?;
    let (name, labels) = head.split_once('{').unwrap_or((head, ""));
    Some((name, labels.trim_end_matches('}'), value.parse().ok()?))
}

// === impl Buckets ===

impl Buckets {
    fn add(&mut self, labels: &str, value: f64) {
        let bound = labels.split(',').find_map(|label| {
            let bound = label.strip_prefix("le=\"")?.strip_suffix('"')?;
            bound.parse::<f64>().ok()
        });
        let Some(bound) = bound else {
            return;
        };
        let at = self.0.partition_point(|(known, _)| *known < bound);
        match self.0.get_mut(at) {
            Some((known, count)) if known.total_cmp(&bound).is_eq() => *count += value,
            _ => self.0.insert(at, (bound, value)),
        }
    }

    /// What was counted since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let new = self.0.iter().map(|(bound, count)| {
            let known = before.0.iter().find(|it| it.0.total_cmp(bound).is_eq());
            (*bound, count - known.map_or(0.0, |it| it.1))
        });
        Self(new.collect())
    }

    /// How many were larger than a bound of the histogram.
    pub(super) fn above(&self, bound: f64) -> f64 {
        let all = self.0.last().map_or(0.0, |it| it.1);
        let below = self.0.iter().rfind(|it| it.0 <= bound);
        all - below.map_or(0.0, |it| it.1)
    }

    /// The value that this part is not larger than, in seconds, evenly distributed within its
    /// bucket. None if nothing was counted.
    pub(super) fn quantile(&self, part: f64) -> Option<f64> {
        let all = self.0.last().map(|it| it.1).filter(|all| *all > 0.0)?;
        let rank = part * all;
        let (mut lower, mut below) = (0.0, 0.0);
        for (bound, count) in &self.0 {
            if *count >= rank && *count > below {
                let share = (rank - below) / (count - below);
                return Some(if bound.is_finite() {
                    lower + (bound - lower) * share
                } else {
                    lower
                });
            }
            (lower, below) = (*bound, *count);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "# HELP lockkeeper_grants Acquires.\n\
        lockkeeper_grants_total{mode=\"exclusive\",result=\"granted\"} 5\n\
        lockkeeper_grants_total{mode=\"fair\",result=\"granted\"} 2\n\
        lockkeeper_grants_total{mode=\"fair\",result=\"busy\"} 9\n\
        lockkeeper_leases_lost_total{reason=\"expired\"} 1\n\
        lockkeeper_wait_seconds_bucket{le=\"0.1\",result=\"granted\"} 4 \
         # {trace_id=\"4b\"} 0.05 1.5\n\
        lockkeeper_wait_seconds_bucket{le=\"1.0\",result=\"granted\"} 8\n\
        lockkeeper_wait_seconds_bucket{le=\"+Inf\",result=\"granted\"} 8\n\
        lockkeeper_wait_seconds_bucket{le=\"0.1\",result=\"timed_out\"} 0\n\
        lockkeeper_wait_seconds_bucket{le=\"1.0\",result=\"timed_out\"} 0\n\
        lockkeeper_wait_seconds_bucket{le=\"+Inf\",result=\"timed_out\"} 2\n\
        lockkeeper_renewal_lag_seconds_bucket{role=\"9\",le=\"1.0\"} 3\n\
        lockkeeper_renewal_lag_seconds_bucket{role=\"9\",le=\"+Inf\"} 4\n\
        lockkeeper_store_may_evict 1\n# EOF\n";

    #[test]
    fn labels_are_summed_and_other_metrics_are_left_alone() {
        let totals = Totals::read(SHOWN);
        assert_eq!(
            (totals.granted, totals.lost, totals.may_evict),
            (7.0, 1.0, 1.0)
        );
        assert_eq!(
            totals.waits.0,
            [(0.1, 4.0), (1.0, 8.0), (f64::INFINITY, 10.0)]
        );
        assert_eq!((totals.lag.above(1.0), totals.store.above(1.0)), (1.0, 0.0));
    }

    #[test]
    fn quantiles_are_those_of_what_was_counted_since() {
        let waits = Totals::read(SHOWN).waits;
        let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-9;
        assert!(near(waits.quantile(0.2), 0.05) && near(waits.quantile(0.6), 0.55));
        assert!(near(waits.quantile(0.99), 1.0), "the last finite bound");
        assert_eq!(waits.since(&waits).quantile(0.5), None);
        assert!(near(waits.since(&Buckets::default()).quantile(0.2), 0.05));
        let before = Buckets(vec![(0.1, 4.0), (1.0, 4.0), (f64::INFINITY, 4.0)]);
        assert!(near(waits.since(&before).quantile(0.5), 0.775));
    }
}
