//! The metrics kit. Each layer keeps its families in a module `metrics`. All label sets are known
//! beforehand. Counters exist from the start, so that a rate sees their first step; histograms
//! of which there are many, from their first use on. After that, counting costs an atomic or a
//! short lock, and never an allocation.

use std::{
    fmt::Debug,
    marker::PhantomData,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use prometheus_client::{
    encoding::EncodeMetric,
    metrics::{
        TypedMetric, counter::Counter, exemplar::HistogramWithExemplars, family::Family,
        gauge::Gauge,
    },
    registry::{Metric, Registry},
};
use tracing::Span;

use crate::spans;

/// The prefix of the names of Lockkeeper's own metrics, without the `_` behind it.
pub const PREFIX: &str = "lockkeeper";

/// The value of a label for names with none of the configured prefixes.
pub const OTHER_NAMES: &str = "other";

/// Buckets for calls of one or a few round trips, in seconds.
const CALLS: [f64; 15] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
];
/// Buckets for waits.
const WAITS: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];
/// Buckets for hold times.
const HOLDS: [f64; 12] = [
    0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0, 86400.0,
];
/// Buckets for parts of leases.
const LEASES: [f64; 12] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 300.0,
];

/// A label with all of its values.
pub trait Label: Copy + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Its values.
    const VALUES: &'static [&'static str];

    /// The index of this value in [`VALUES`](Self::VALUES).
    fn index(self) -> usize;

    /// This value in the exposition.
    fn value(self) -> &'static str {
        Self::VALUES[self.index()]
    }
}

/// No label.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// Declares an `enum` that is a label.
#[macro_export]
macro_rules! label {
    (
        $(#[$doc:meta])* $visibility:vis enum $type:ident = $name:literal {
            $($variant:ident = $value:literal),+ $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $type { $($variant),+ }

        impl $crate::metrics::Label for $type {
            const NAME: &'static str = $name;
            const VALUES: &'static [&'static str] = &[$($value),+];

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}
pub use label;

/// The labels of a member of a family.
pub type Labels = Vec<(&'static str, String)>;

/// A histogram. Each bucket has the newest recorded trace that fell into it, as its exemplar.
pub type Histogram = HistogramWithExemplars<[(&'static str, String); 1]>;

/// A member of a family that exists from its first use on.
#[derive(Debug)]
pub struct OnUse<M> {
    family: Family<Labels, M, fn() -> M>,
    labels: Labels,
    member: OnceLock<M>,
}

/// A family, with its members in the order of a fixed list.
pub type Numbered<M> = (Family<Labels, M, fn() -> M>, Vec<M>);

/// One metric for each value of a label, or for each pair of values of two.
#[derive(Debug)]
pub struct By<M, A, B = Plain> {
    family: Family<Labels, M, fn() -> M>,
    each: Vec<OnUse<M>>,
    labels: PhantomData<fn(A, B)>,
}

/// Counters by label.
pub type Counters<A, B = Plain> = By<Counter, A, B>;
/// Histograms by label.
pub type Histograms<A, B = Plain> = By<Histogram, A, B>;

/// Registers the metrics of layers.
#[derive(Debug)]
pub struct Registrar<'a>(&'a mut Registry);

// === impl Plain ===

impl Label for Plain {
    const NAME: &'static str = "";
    const VALUES: &'static [&'static str] = &[""];

    fn index(self) -> usize {
        0
    }
}

// === impl OnUse ===

impl<M: Clone> OnUse<M> {
    /// The member with these labels.
    pub fn new(family: &Family<Labels, M, fn() -> M>, labels: Labels) -> Self {
        Self {
            family: family.clone(),
            labels,
            member: OnceLock::new(),
        }
    }

    /// The member, which is shown from now on.
    pub fn get(&self) -> &M {
        let make = || self.family.get_or_create_owned(&self.labels);
        self.member.get_or_init(make)
    }
}

// === impl By ===

impl<M: Clone, A: Label, B: Label> By<M, A, B> {
    /// All members, made by `make`.
    pub fn new(make: fn() -> M) -> Self {
        let all = Self::on_use(make);
        for member in &all.each {
            member.get();
        }
        all
    }

    /// The same, each from its first use on.
    pub fn on_use(make: fn() -> M) -> Self {
        let family = Family::new_with_constructor(make);
        let label = |name, value: &str| (!value.is_empty()).then(|| (name, value.to_owned()));
        let pairs = A::VALUES
            .iter()
            .flat_map(|a| B::VALUES.iter().map(move |b| (a, b)));
        let sets = pairs.map(|(a, b)| {
            let labels: Labels = label(A::NAME, a)
                .into_iter()
                .chain(label(B::NAME, b))
                .collect();
            OnUse::new(&family, labels)
        });
        Self {
            each: sets.collect(),
            family,
            labels: PhantomData,
        }
    }

    /// The member of a pair of values.
    pub fn of_both(&self, a: A, b: B) -> &M {
        self.each[a.index() * B::VALUES.len() + b.index()].get()
    }

    /// The family, for registration.
    pub fn family(&self) -> Family<Labels, M, fn() -> M> {
        self.family.clone()
    }
}

impl<M: Clone, A: Label> By<M, A> {
    /// The member of a value.
    pub fn of(&self, a: A) -> &M {
        self.of_both(a, Plain)
    }
}

impl<A: Label, B: Label> Default for Counters<A, B> {
    fn default() -> Self {
        Self::new(Counter::default)
    }
}

/// One metric for each member of a fixed list.
pub fn numbered<M>(
    name: &'static str,
    values: impl IntoIterator<Item = String>,
    make: fn() -> M,
) -> Numbered<M>
where
    M: Clone + Debug + EncodeMetric + TypedMetric + Send + Sync + 'static,
{
    let family = Family::new_with_constructor(make);
    let each = values
        .into_iter()
        .map(|value| family.get_or_create_owned(&vec![(name, value)]))
        .collect();
    (family, each)
}

/// A histogram of calls of one or a few round trips.
pub fn of_calls() -> Histogram {
    Histogram::new(CALLS.into_iter())
}

/// A histogram of waits.
pub fn of_waits() -> Histogram {
    Histogram::new(WAITS.into_iter())
}

/// A histogram of hold times.
pub fn of_holds() -> Histogram {
    Histogram::new(HOLDS.into_iter())
}

/// A histogram of parts of leases.
pub fn of_leases() -> Histogram {
    Histogram::new(LEASES.into_iter())
}

/// Sets a gauge; saturates at its maximum.
pub fn set(gauge: &Gauge, value: usize) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}

/// Records a time in a histogram, with the trace of the current span.
pub fn observe(histogram: &Histogram, time: Duration) {
    observe_in(None, histogram, time);
}

/// Records a time in a histogram, with the trace of a span: of the current one if none is given.
#[allow(
    clippy::disallowed_methods,
    reason = "an exemplar has a wall-clock time; nothing is decided by it"
)]
pub fn observe_in(span: Option<&Span>, histogram: &Histogram, time: Duration) {
    let exemplar = spans::recorded_trace(span).map(|id| [("trace_id", id)]);
    let at = exemplar.is_some().then(SystemTime::now);
    histogram.observe(time.as_secs_f64(), exemplar, at);
}

// === impl Registrar ===

impl<'a> Registrar<'a> {
    /// A registrar for Lockkeeper's own metrics in a registry.
    pub fn new(registry: &'a mut Registry) -> Self {
        Self(registry.sub_registry_with_prefix(PREFIX))
    }

    /// Registers a metric by this name, between the prefix `lockkeeper` and its unit or `total`.
    pub fn add(&mut self, name: &str, help: &str, metric: impl Metric) {
        self.0.register(name, help, metric);
    }
}
