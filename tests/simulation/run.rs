//! One seed, from the first client to the verdict.

use std::{cell::RefCell, sync::Once, time::Duration};

use futures::future::join_all;
use lockkeeper_base::tasks::spawn_detached;
use tokio::time::timeout;

use super::{
    checker::{self, Bounds, Violation},
    clients::{foreign, session_client, sessionless_client, several_client},
    history::{Event, Told, What},
    mutants::Mutant,
    plan::Plan,
    world::World,
};

/// What came of a seed.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) events: Vec<Event>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) operations: u64,
    pub(crate) grants: u64,
}

thread_local! {
    /// A task that panics is silent, so the hook remembers. So is a script that fails, for some.
    static FAILURES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

static HOOK: Once = Once::new();

/// Remembers that a task or a script failed on this thread.
pub(crate) fn has_failed(what: String) {
    FAILURES.with_borrow_mut(|failures| failures.push(what));
}

/// Runs something on this thread, and tells which of its tasks and scripts failed.
pub(crate) fn watched<T>(run: impl FnOnce() -> T) -> (T, Vec<String>) {
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            has_failed(format!("panic: {info}"));
            usual(info);
        }));
    });
    FAILURES.take();
    let outcome = run();
    (outcome, FAILURES.take())
}

/// Runs a seed on this thread.
pub(crate) fn run(seed: u64, mutant: Mutant) -> Run {
    let plan = Plan::of(seed);
    let bounds = Bounds::of(&plan);
    let (events, failures) = watched(|| paused(live(plan, mutant)));
    let mut violations = checker::check(&events, &bounds);
    // A script that fails breaks a rule of its own if that matters to anybody.
    let panics = failures.into_iter().filter(|it| it.starts_with("panic: "));
    violations.extend(panics.map(|rule| Violation { at: 0, rule }));
    let count = |which: fn(&What) -> bool| {
        let count = events.iter().filter(|event| which(&event.what)).count();
        u64::try_from(count).unwrap_or(u64::MAX)
    };
    Run {
        operations: count(|what| matches!(what, What::Invoked { .. })),
        grants: count(|what| matches!(what, What::Told(_, Told::Granted(_)))),
        events,
        violations,
    }
}

/// Runs under a clock that stands still until everybody waits.
pub(crate) fn paused<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(future)
}

async fn live(plan: Plan, mutant: Mutant) -> Vec<Event> {
    let world = World::new(plan, mutant);
    let plan = &world.plan;
    let mut clients = Vec::new();
    let mut numbers = 1..;
    let mut next = || numbers.next().unwrap_or(0);
    for _ in 0..plan.session_clients {
        let client = session_client(world.clone(), next());
        clients.push(spawn_detached("session client", client));
    }
    for _ in 0..plan.sessionless_clients {
        let client = sessionless_client(world.clone(), next());
        clients.push(spawn_detached("sessionless client", client));
    }
    for _ in 0..plan.several_clients {
        let client = several_client(world.clone(), next());
        clients.push(spawn_detached("client of several locks", client));
    }
    for _ in 0..plan.foreign_clients {
        let client = foreign(world.clone(), next());
        clients.push(spawn_detached("foreign client", client));
    }
    world.run_incidents().await;
    let all = join_all(clients);
    if timeout(healing_time(plan), all).await.is_err() {
        let rule = "healing: some clients do not come to an end".to_owned();
        world.history.record(What::Broke(rule));
    } else {
        world.look_for_leftovers().await;
    }
    world.history.take()
}

/// What is left behind runs out, then those who wait get their locks one after the other.
fn healing_time(plan: &Plan) -> Duration {
    plan.lease_max() * 4 + plan.call_timeout * 10 + plan.poll_interval * 5 + Duration::from_secs(20)
}
