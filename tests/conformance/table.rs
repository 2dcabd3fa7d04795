//! The table of scenarios and languages.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::Result;
use libtest_mimic::Failed;
use parking_lot::Mutex;

/// The results by group of scenarios and by language.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(Arc<Mutex<BTreeMap<(String, &'static str), Tally>>>);

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

// === impl Table ===

impl Table {
    /// Records the result of a scenario, named `group::scenario`.
    pub(crate) fn record(
        &self,
        language: &'static str,
        scenario: &str,
        result: Result<()>,
    ) -> Result<(), Failed> {
        let group = scenario.split("::").next().unwrap_or(scenario).to_owned();
        let mut tallies = self.0.lock();
        let tally = tallies.entry((group, language)).or_default();
        match &result {
            Ok(()) => tally.passed += 1,
            Err(_) => tally.failed += 1,
        }
        result.map_err(|failure| Failed::from(format!("{failure:#}")))
    }

    /// Prints passed and all scenarios of each group in each language.
    #[expect(clippy::print_stdout, reason = "what the kit is for")]
    pub(crate) fn print(&self) {
        let tallies = self.0.lock();
        let groups: BTreeSet<_> = tallies.keys().map(|(group, _)| group).collect();
        let languages: BTreeSet<_> = tallies.keys().map(|(_, language)| language).collect();
        print!("\n{:<12}", "scenarios");
        for language in &languages {
            print!("{language:>12}");
        }
        println!();
        for group in groups {
            print!("{group:<12}");
            for language in &languages {
                let tally = tallies.get(&(group.clone(), *language));
                let Tally { passed, failed } = tally.copied().unwrap_or_default();
                print!("{:>12}", format!("{passed}/{}", passed + failed));
            }
            println!();
        }
    }
}
