//! How a scenario is run in a language.

use std::{env, ffi::OsString, path::Path, time::Duration};

use anyhow::{Result, anyhow, ensure};
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
    judged(|runtime| {
        runtime.block_on(bounded(async {
            let mut stage = Stage::new(language.driver().await?).await?;
            scenario(&mut stage).await?;
            let problems = stage.problems();
            ensure!(problems.is_empty(), "{}", problems.join("; "));
            Ok(())
        }))
    })
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

/// Runs something anew if it failed while the machine was starved.
#[expect(clippy::print_stderr, reason = "a void run is never silent")]
fn judged(run: impl Fn(&Runtime) -> Result<()>) -> Result<()> {
    let mut result = Ok(());
    for number in 1..=RUNS_MAX {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        heartbeat::begin();
        let begun = Instant::now();
        result = run(&runtime);
        let late = heartbeat::lateness(begun, Instant::now()).most;
        runtime.shutdown_background();
        if result.is_ok() || late <= LATE_MAX {
            break;
        }
        eprintln!("void: run {number} on a machine that woke {late:?} late: {result:?}");
    }
    result
}
