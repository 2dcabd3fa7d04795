//! Is everything well? The state of the coordinator, its last 15 minutes, and what needs a person.

use std::collections::BTreeSet;

use lockkeeper_coordinator::{Contended, Coordinator, Deadlocked};
use serde_json::{Value, json};

use super::{
    exposition::Totals,
    json::{kind_name, millis},
    local::Local,
};

/// Names that most calls wait for here. Together with those of others, fewer are shown.
const WAITED_MAX: usize = 100;

/// The part of a limit, in percent, from which on a person should know.
const NEAR_PERCENT: usize = 80;

/// What the banners depend on.
#[derive(Clone, Debug, Default)]
struct Facts {
    not_ready: Option<String>,
    is_draining: bool,
    deadlocks: Vec<Vec<String>>,
    at_risk: usize,
    totals: Totals,
    /// What is used of limits, by key.
    limits: Vec<(String, usize, usize)>,
}

/// What a coordinator knows: its state, its banners, its most waited for names, and its charts.
pub(super) async fn overview(local: &Local) -> Value {
    let Local {
        coordinator,
        probe,
        samples,
    } = local;
    let (store, ready) = tokio::join!(probe.store_answers(), probe.is_ready());
    let mut contended = coordinator.contended();
    contended.sort_by_key(|it| std::cmp::Reverse(it.waiters));
    let load = coordinator.load();
    let facts = Facts {
        not_ready: ready.err(),
        is_draining: coordinator.is_draining(),
        deadlocks: names(&coordinator.deadlocks()),
        at_risk: coordinator.sessions_at_risk(),
        totals: samples.newest(),
        limits: limits(coordinator, contended.first()),
    };
    let not_ready_reason = facts.not_ready_reason();
    let waited = contended.iter().take(WAITED_MAX).map(|it| {
        json!({
            "name": it.name.public(),
            "kind": kind_name(it.kind),
            "waiterCount": it.waiters,
            "longestWaitMs": millis(it.since.elapsed()),
        })
    });
    json!({
        "coordinator": {
            "version": env!("CARGO_PKG_VERSION"),
            "upForMs": millis(coordinator.up_for()),
            "isReady": not_ready_reason.is_empty(),
            "notReadyReason": not_ready_reason,
            "draining": facts.is_draining,
            "storeAnswers": store.is_ok(),
            "storeError": store.err(),
            "sessions": load.sessions,
            "waiters": load.waiters,
        },
        "banners": facts.banners(),
        "mostWaitedFor": waited.collect::<Vec<_>>(),
        "history": samples.shown(),
    })
}

/// The names that are waited for in each deadlock, in the same order at each coordinator.
fn names(deadlocks: &[Vec<Deadlocked>]) -> Vec<Vec<String>> {
    let names = |waits: &Vec<Deadlocked>| {
        let names: BTreeSet<_> = waits.iter().map(|it| it.name.to_string()).collect();
        names.into_iter().collect()
    };
    deadlocks.iter().map(names).collect()
}

fn limits(
    coordinator: &Coordinator,
    most_waited: Option<&Contended>,
) -> Vec<(String, usize, usize)> {
    let (load, limits) = (coordinator.load(), coordinator.limits());
    let mut used = vec![
        (
            "limits.sessions_max".to_owned(),
            load.sessions,
            limits.sessions_max,
        ),
        (
            "limits.waiters_max".to_owned(),
            load.waiters,
            limits.waiters_max,
        ),
    ];
    if let Some(most) = most_waited {
        let key = format!("limits.waiters_per_lock_max of {}", most.name);
        used.push((key, most.waiters, limits.waiters_per_lock_max));
    }
    used
}

// === impl Facts ===

impl Facts {
    /// Why no new work is accepted; empty if it is.
    fn not_ready_reason(&self) -> &str {
        let drains = self.is_draining.then_some("it drains");
        drains.or(self.not_ready.as_deref()).unwrap_or_default()
    }

    /// What needs a person, as pairs of a kind and a text.
    fn banners(&self) -> Vec<Value> {
        let Totals {
            token_regressions,
            counters_refused,
            may_evict,
            rights_missing,
            ..
        } = self.totals;
        let mut banners = Vec::new();
        let mut add = |kind: &str, text: String| {
            banners.push(json!({ "kind": kind, "text": text }));
        };
        if let Some(why) = &self.not_ready {
            add("notReady", format!("This coordinator is not ready: {why}."));
        }
        if self.is_draining {
            add(
                "draining",
                "This coordinator drains: it admits no waits.".to_owned(),
            );
        }
        for names in &self.deadlocks {
            let names = names.join(", ");
            let text = format!("Deadlock: the holders of {names} wait for each other.");
            add("deadlock", text);
        }
        if self.at_risk > 0 {
            let text = "sessions at risk: the last renewal of one of their grants failed.";
            add("atRisk", format!("{} {text}", self.at_risk));
        }
        if token_regressions > 0.0 {
            let text = "fencing tokens were smaller than earlier ones: the store has older data, \
                or its clock went back.";
            add("tokenRegression", format!("{token_regressions} {text}"));
        }
        if counters_refused > 0.0 {
            let text = "operations were refused, because a fencing counter is out of range.";
            add("counterRefused", format!("{counters_refused} {text}"));
        }
        if may_evict > 0.0 {
            let text = "The store may evict locks: its maxmemory-policy is not noeviction.";
            add("mayEvict", text.to_owned());
        }
        if rights_missing > 0.0 {
            let text = "commands that the store's user needs and may not run; the log names them.";
            add("rightsMissing", format!("{rights_missing} {text}"));
        }
        for (key, used, max) in &self.limits {
            if used.saturating_mul(100) > max.saturating_mul(NEAR_PERCENT) {
                add("limit", format!("{used} of {max} ({key}) are in use."));
            }
        }
        banners
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(facts: &Facts) -> Vec<String> {
        let kind = |it: &Value| it["kind"].as_str().unwrap().to_owned();
        facts.banners().iter().map(kind).collect()
    }

    #[test]
    fn a_banner_is_only_for_what_needs_a_person() {
        let limits = vec![("limits.sessions_max".to_owned(), 80, 100)];
        let mut facts = Facts {
            limits,
            ..Facts::default()
        };
        assert_eq!(kinds(&facts), [""; 0]);
        assert_eq!(facts.not_ready_reason(), "");
        facts.limits[0].1 = 81;
        facts.not_ready = Some("the store does not answer".to_owned());
        assert_eq!(facts.not_ready_reason(), "the store does not answer");
        facts.is_draining = true;
        assert_eq!(facts.not_ready_reason(), "it drains");
        facts.deadlocks = vec![vec!["a".to_owned(), "b".to_owned()]];
        facts.at_risk = 3;
        facts.totals = Totals::read(
            "lockkeeper_fencing_token_regressions_total 1\n\
             lockkeeper_fencing_counters_refused_total 2\n\
             lockkeeper_store_may_evict 1\nlockkeeper_store_rights_missing 4\n",
        );
        let expected = [
            "notReady",
            "draining",
            "deadlock",
            "atRisk",
            "tokenRegression",
            "counterRefused",
            "mayEvict",
            "rightsMissing",
            "limit",
        ];
        assert_eq!(kinds(&facts), expected);
        let texts = facts.banners();
        assert_eq!(
            texts[2]["text"],
            "Deadlock: the holders of a, b wait for each other."
        );
        assert_eq!(
            texts[8]["text"],
            "81 of 100 (limits.sessions_max) are in use."
        );
    }
}
