//! Exploring a model.

use std::{fmt::Debug, hash::Hash, thread};

use stateright::{Checker as _, Expectation, HasDiscoveries, Model};

/// What was found.
#[derive(Clone, Debug)]
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// The longest sequence of steps without a repetition.
    pub depth: usize,
    /// The properties that do not hold, each with the shortest way there.
    pub wrong: Vec<(&'static str, String)>,
    /// What was to be seen and was not: the bounds are too small to show anything.
    pub unseen: Vec<&'static str>,
}

/// Explores all states, or until a property does not hold.
pub fn explore<M>(model: M) -> Explored
where
    M: Model<
            State: Clone + Debug + Hash + PartialEq + Send + Sync,
            Action: Clone + Debug + PartialEq,
        > + Send
        + Sync
        + 'static,
{
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let properties = model.properties();
    let sometimes: Vec<_> = properties
        .into_iter()
        .filter(|it| it.expectation == Expectation::Sometimes)
        .map(|it| it.name)
        .collect();
    let checker = model
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let mut found = checker.discoveries();
    let seen: Vec<_> = sometimes
        .iter()
        .filter(|name| found.remove(*name).is_some())
        .collect();
    let unseen = sometimes.iter().filter(|it| !seen.contains(it));
    Explored {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        unseen: unseen.copied().collect(),
        wrong: found
            .into_iter()
            .map(|(name, path)| (name, format!("{:?}", path.into_actions())))
            .collect(),
    }
}
