//! The conformance kit: proves that the clients of all languages behave alike. See
//! `clients/conformance.md`. `CONFORMANCE_LANGUAGES` names the languages, by default `rust`.
//! `CONFORMANCE_SHORT` runs each scenario with real coordinators in two of the languages.

mod contention;
mod deadlock;
mod driver_process;
mod feed;
mod ledger;
mod messages;
mod real;
mod scripted;
mod service;
mod speed;
mod stage;
mod stream;
mod table;
mod trial;
mod wrong;

use libtest_mimic::{Arguments, Failed, Trial};

use self::{table::Table, trial::Language};

fn main() {
    let arguments = Arguments::from_args();
    let languages = Language::all();
    let table = Table::default();
    let trials = languages.iter().enumerate().flat_map(|(number, language)| {
        let scripted = scripted::SCENARIOS.iter().map(|(name, scenario)| {
            let (language, table) = (language.clone(), table.clone());
            Trial::test(format!("{}::{name}", language.name), move || {
                table.record(language.name, name, trial::scripted(&language, *scenario))
            })
        });
        let real = real::SCENARIOS.iter().enumerate();
        let real = real.filter(|(which, _)| is_wanted(*which, number, languages.len()));
        let real = real.map(|(_, (name, scenario))| {
            let (language, table) = (language.clone(), table.clone());
            Trial::test(format!("{}::{name}", language.name), move || {
                table.record(language.name, name, trial::real(&language, *scenario))
            })
        });
        scripted.chain(real).collect::<Vec<_>>()
    });
    let has_wrong = languages.iter().any(|it| it.name == "python");
    let wrong = wrong::CLIENTS.iter().filter(|_| has_wrong);
    let wrong = wrong.map(|(client, by)| {
        Trial::test(format!("wrong::{client}"), move || {
            wrong::is_caught(client, by).map_err(|it| Failed::from(format!("{it:#}")))
        })
    });
    let wrong = wrong.chain(has_wrong.then(|| {
        Trial::test("wrong::only_what_is_wrong_is_caught", || {
            wrong::only_what_is_wrong_is_caught().map_err(|it| Failed::from(format!("{it:#}")))
        })
    }));
    let void = Trial::test("only_lateness_voids_a_run", || {
        trial::only_lateness_voids_a_run().map_err(|it| Failed::from(format!("{it:#}")))
    });
    let contention = Trial::test("contention", {
        let languages = languages.clone();
        move || trial::contention(&languages).map_err(|it| Failed::from(format!("{it:#}")))
    });
    let deadlock = Trial::test("deadlock", {
        let languages = languages.clone();
        move || trial::deadlock(&languages).map_err(|it| Failed::from(format!("{it:#}")))
    });
    let speed = Trial::test("speed", {
        let languages = languages.clone();
        move || speed::measure(&languages).map_err(|it| Failed::from(format!("{it:#}")))
    });
    // It proves nothing on a busy machine.
    let speed = speed.with_ignored_flag(true);
    let trials = trials
        .chain(wrong)
        .chain([void, contention, deadlock, speed]);
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    if !arguments.list {
        table.print();
    }
    conclusion.exit();
}

/// In the short form, neighbours in the list of scenarios are run in other languages.
fn is_wanted(scenario: usize, language: usize, languages: usize) -> bool {
    const LANGUAGES_EACH: usize = 2;
    let is_short = std::env::var_os("CONFORMANCE_SHORT").is_some();
    !is_short || (scenario + language) % languages < LANGUAGES_EACH
}
