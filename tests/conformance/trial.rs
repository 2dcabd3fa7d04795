//! How a scenario is run in a language.

use std::{cell::Cell, env, ffi::OsString, fmt, path::Path, time::Duration};

use anyhow::{Result, anyhow, bail, ensure};
use lockkeeper_testkit::heartbeat;
use tokio::{
    runtime::{Builder, Runtime},
    time::{Instant, timeout},
};

use crate::{
    contention::contend, deadlock, driver_process::Driver, real, scripted::Scenario, stage::Stage,
};

/// A scenario that fails while the machine wakes its threads later than this proves nothing.
const LATE_MAX: Duration = Duration::from_millis(100);

/// A scenario that takes this long waits for what never comes.
const SCENARIO_MAX: Duration = Duration::from_secs(120);

/// How often such a scenario is run.
const RUNS_MAX: usize = 4;

/// Marks a failure that no late thread explains: such a run is never void.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsafe;

/// A language, and how its driver is started.
#[derive(Clone, Debug)]
pub(crate) struct Language {
    pub(crate) name: &'static str,
    command: Vec<OsString>,
}

// === impl Language ===

impl Language {
    /// Those that the environment names.
    pub(crate) fn all() -> Vec<Self> {
        let named = env::var("CONFORMANCE_LANGUAGES").unwrap_or_else(|_| "rust".to_owned());
        let known = ["rust", "go", "python", "java", "node"];
        let all = known
            .into_iter()
            .filter(|it| named.split(',').any(|name| name == *it));
        all.map(Self::named).collect()
    }

    pub(crate) fn named(name: &'static str) -> Self {
        let command = match name {
            "rust" => env!("CARGO_BIN_EXE_conformance-driver").into(),
            _ => Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../clients")
                .join(name)
                .join("conformance/run")
                .into(),
        };
        Self {
            name,
            command: vec![command],
        }
    }

    /// Its client with one rule broken.
    pub(crate) fn broken(&self, rule: &str) -> Self {
        let run = Path::new(&self.command[0]);
        let command = vec![run.with_file_name("wrong.py").into(), rule.into()];
        Self { command, ..*self }
    }

    /// Its client, which appends what it sees to a history.
    pub(crate) fn with_history(&self, file: &Path) -> Self {
        let mut variable = OsString::from("LOCKKEEPER_HISTORY=");
        variable.push(file);
        let command = ["env".into(), variable].into_iter();
        let command = command.chain(self.command.iter().cloned()).collect();
        Self { command, ..*self }
    }

    pub(crate) async fn driver(&self) -> Result<Driver> {
        Driver::start(&self.command).await
    }
}

/// Runs a scenario with scripted coordinators.
pub(crate) fn scripted(language: &Language, scenario: Scenario) -> Result<()> {
    judged(|runtime| runtime.block_on(bounded(play(language, scenario))))
}

/// The same, but it has to fail, and to say this.
#[expect(clippy::print_stderr, reason = "what caught a client is the result")]
pub(crate) fn scripted_fails(wrong: &Language, scenario: Scenario, says: &str) -> Result<()> {
    judged(|runtime| {
        let Err(failure) = runtime.block_on(bounded(play(wrong, scenario))) else {
            bail!("it passes");
        };
        let failure = format!("{failure:#}");
        ensure!(failure.contains(says), "{says:?} expected: {failure}");
        eprintln!("caught: {failure}");
        Ok(())
    })
}

async fn play(language: &Language, scenario: Scenario) -> Result<()> {
    let mut stage = Stage::new(language.driver().await?).await?;
    let played = scenario(&mut stage).await;
    let problems = stage.problems();
    if problems.is_empty() {
        return played;
    }
    let failure = played.err().map(|it| format!("{it:#}"));
    let problems: Vec<_> = problems.into_iter().chain(failure).collect();
    Err(anyhow!(problems.join("; ")).context(Unsafe))
}

/// Runs a scenario with real coordinators.
pub(crate) fn real(language: &Language, scenario: real::Scenario) -> Result<()> {
    judged(|runtime| {
        runtime.block_on(bounded(async {
            let mut scene = real::Scene::new(language).await?;
            scenario(&mut scene).await
        }))
    })
}

/// Runs the contention of all languages.
pub(crate) fn contention(languages: &[Language]) -> Result<()> {
    judged(|runtime| runtime.block_on(contend(languages)))
}

/// Runs the deadlock of all languages.
pub(crate) fn deadlock(languages: &[Language]) -> Result<()> {
    judged(|runtime| runtime.block_on(deadlock::deadlock(languages)))
}

async fn bounded(scenario: impl Future<Output = Result<()>>) -> Result<()> {
    let ended = timeout(SCENARIO_MAX, scenario).await;
    ended.map_err(|_| anyhow!("it has not ended after {SCENARIO_MAX:?}"))?
}

/// Runs something in a runtime of its own, [repeatedly](repeated) if need be.
fn judged(run: impl Fn(&Runtime) -> Result<()>) -> Result<()> {
    repeated(|| {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        heartbeat::begin();
        let begun = Instant::now();
        let result = run(&runtime);
        let late = heartbeat::lateness(begun, Instant::now()).most;
        runtime.shutdown_background();
        Ok((result, late))
    })
}

/// Runs something anew if it failed in time only, and while the machine was starved. A run says how
/// it ended, and how late the machine was.
#[expect(clippy::print_stderr, reason = "a void run is never silent")]
fn repeated(run: impl Fn() -> Result<(Result<()>, Duration)>) -> Result<()> {
    let mut last = Ok(());
    for number in 1..=RUNS_MAX {
        let (result, late) = run()?;
        let may_be_void = |it: &anyhow::Error| it.downcast_ref::<Unsafe>().is_none();
        if late <= LATE_MAX || !result.as_ref().is_err_and(may_be_void) {
            return result;
        }
        eprintln!("void: run {number} on a machine that woke {late:?} late: {result:?}");
        last = result;
    }
    last
}

/// Only what a late thread explains is run anew.
pub(crate) fn only_lateness_voids_a_run() -> Result<()> {
    let runs = |result: fn() -> Result<()>, late: Duration| {
        let runs = Cell::new(0);
        let ended = repeated(|| {
            runs.set(runs.get() + 1);
            Ok((result(), late))
        });
        (runs.get(), ended.is_ok())
    };
    let slow = || Err(anyhow!("it has not ended"));
    let broken = || Err(anyhow!("two hold it").context(Unsafe));
    let seen = [
        runs(|| Ok(()), 2 * LATE_MAX),
        runs(slow, LATE_MAX),
        runs(slow, 2 * LATE_MAX),
        runs(broken, 2 * LATE_MAX),
    ];
    let expected = [(1, true), (1, false), (RUNS_MAX, false), (1, false)];
    ensure!(seen == expected, "{expected:?} expected: {seen:?}");
    Ok(())
}

// === impl Unsafe ===

impl fmt::Display for Unsafe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a promise is broken")
    }
}
