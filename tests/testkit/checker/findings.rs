//! The judgement of a history of real servers.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    hold::{Hold, holds},
    rules::{Grant, Interval, overlaps, shrunk, twins},
};
use crate::{
    heartbeat::Lateness,
    history::{At, Attempt, Event, Name, What},
};

/// How much later than it was sent a notice may arrive on a busy machine. A holder that is told
/// within this after the next grant has been told in time.
pub const NOTICE_MAX: Duration = Duration::from_millis(150);

/// What the rules need to know.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub lease: Duration,
    /// The first so many locks are in constant use.
    pub busy: usize,
    /// When the first fault began.
    pub fault: At,
    /// When the last one was over: from here on the store can be used.
    pub healed: At,
    /// When the contenders began nothing new any more.
    pub stopped: At,
    /// When the history ended.
    pub end: At,
    /// What the machine took meanwhile. Everybody is given that much time more.
    pub lateness: Lateness,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    pub grants: usize,
    pub failed: usize,
    /// Grants that were told as lost, but for those that were being given back.
    pub lost: usize,
    /// Releases of what was still held that were refused as if it were not.
    pub refused: Vec<String>,
    /// Pairs of holders that relied on a lock at once.
    pub violations: Vec<String>,
    /// The same, for so short a time that the notice may have been under way.
    pub late_notices: usize,
    /// Tokens that shrank.
    pub tokens: Vec<String>,
    /// Tokens that were given twice.
    pub twins: Vec<String>,
    /// Waiters of a lock that nobody held, for longer than they need have patience.
    pub stuck: Vec<String>,
    /// Holders who were not told that another has their lock.
    pub silent: Vec<String>,
    /// The same, but they gave it back before they could be told, and were told that they had it:
    /// there were two stores.
    pub unaware: Vec<String>,
    /// The longest time without any grant from the fault on.
    pub outage: Duration,
    /// From the fault to the first grant after that.
    pub back: Duration,
    /// The longest time without a grant of one of the locks that are in constant use.
    pub outage_of_one: Duration,
}

// === impl Bounds ===

impl Bounds {
    /// Within this after the store can be used what is promised comes true: a lease and a second.
    fn patience(&self) -> Duration {
        self.lease + Duration::from_secs(1) + self.lateness.total
    }
}

/// All rules.
pub fn check(events: &[Event], bounds: &Bounds) -> Findings {
    let holds = holds(events, bounds);
    let mut findings = Findings {
        grants: holds.iter().filter(|it| it.granted.is_some()).count(),
        failed: events.iter().filter(|it| it.what == What::Failed).count(),
        lost: holds.iter().filter(|it| it.is_lost).count(),
        refused: refused(&holds, bounds),
        stuck: stuck(&holds, bounds),
        ..Findings::default()
    };
    tokens(&holds, &mut findings);
    exclusion(&holds, bounds, &mut findings);
    silent(&holds, bounds, &mut findings);
    (findings.outage, findings.back) = outage(holds.iter(), bounds);
    let names = by_name(&holds);
    let busy = names.range(..bounds.busy);
    let outages = busy.map(|(_, holds)| outage(holds.iter().copied(), bounds).0);
    findings.outage_of_one = outages.max().unwrap_or_default();
    findings
}

fn by_name(holds: &[Hold]) -> BTreeMap<Name, Vec<&Hold>> {
    let mut names: BTreeMap<Name, Vec<&Hold>> = BTreeMap::new();
    for hold in holds {
        names.entry(hold.name).or_default().push(hold);
    }
    names
}

/// No two rely on a lock at once.
fn exclusion(holds: &[Hold], bounds: &Bounds, findings: &mut Findings) {
    let notice_max = NOTICE_MAX + bounds.lateness.most;
    let intervals = holds.iter().flat_map(|hold| {
        hold.valid.iter().map(move |&(from, until)| Interval {
            name: hold.name,
            holder: hold,
            token: hold.token().unwrap_or_default(),
            from,
            until,
        })
    });
    let mut pairs = BTreeSet::new();
    for [before, it] in overlaps(intervals) {
        let pair = (before.holder.attempt, it.holder.attempt);
        if pair.0 == pair.1 || !pairs.insert(pair) {
            continue;
        }
        let is_told = before.holder.told == Some(before.until);
        if is_told && before.until <= it.from + notice_max {
            findings.late_notices += 1;
            continue;
        }
        findings.violations.push(format!(
            "lock {}: {} relies on it until {:?}, {} from {:?}",
            it.name, pair.0, before.until, pair.1, it.from
        ));
    }
}

/// Each token of a lock is given once, and what was told before another asked has the smaller one.
fn tokens(holds: &[Hold], findings: &mut Findings) {
    for (name, holds) in by_name(holds) {
        let grants: Vec<_> = holds.into_iter().filter_map(Hold::grant).collect();
        let twins = twins(&grants).into_iter();
        let twins = twins.map(|[_, it]| format!("lock {name}: token {} was given twice", it.token));
        findings.twins.extend(twins);
        let shrunk = shrunk(&grants).into_iter();
        let shrunk = shrunk.filter(|[before, it]| it.token < before.token);
        let text = |[before, it]: [Grant<Attempt, At>; 2]| {
            format!("lock {name}: token {} after {}", it.token, before.token)
        };
        findings.tokens.extend(shrunk.map(text));
    }
}

/// Who has a lock can give it back. A renewal leaves more than a third of a lease, so a grant that
/// is not at risk has not ended by then.
fn refused(holds: &[Hold], bounds: &Bounds) -> Vec<String> {
    let early = |hold: &&Hold| hold.refused.is_some_and(|after| after < bounds.lease / 3);
    let text = |hold: &Hold| {
        format!(
            "lock {}: {} could not give back what it had",
            hold.name, hold.attempt
        )
    };
    holds.iter().filter(early).map(text).collect()
}

/// A lock that nobody has, and that somebody waits for, is granted in time once the store can be
/// used.
fn stuck(holds: &[Hold], bounds: &Bounds) -> Vec<String> {
    let patience = bounds.patience();
    let mut problems = Vec::new();
    for (name, holds) in by_name(holds) {
        let mut taken: Vec<(At, At)> = Vec::new();
        for hold in &holds {
            if let Some((at, _)) = hold.granted {
                taken.push((at, hold.ended.unwrap_or(bounds.end)));
            }
        }
        taken.sort_unstable();
        // Until when it was taken by those that begin no later.
        let over = taken.iter().scan(At::ZERO, |latest, (_, to)| {
            *latest = (*latest).max(*to);
            Some(*latest)
        });
        let over: Vec<At> = over.collect();
        for hold in &holds {
            let until = hold.granted.map(|(at, _)| at).or(hold.ended);
            let until = until.unwrap_or(bounds.end);
            let mut free_since = hold.asked.max(bounds.healed);
            let mut longest = Duration::ZERO;
            for &(from, to) in &taken[over.partition_point(|it| *it <= free_since)..] {
                if from >= until {
                    break;
                }
                longest = longest.max(from.saturating_sub(free_since));
                free_since = free_since.max(to);
            }
            longest = longest.max(until.saturating_sub(free_since));
            if longest > patience {
                problems.push(format!(
                    "lock {name}: {} waited {longest:?} while nobody had it",
                    hold.attempt
                ));
            }
        }
    }
    problems
}

/// Who loses a lock to another is told: by a notice, a refusal, or because its time was over.
fn silent(holds: &[Hold], bounds: &Bounds, findings: &mut Findings) {
    let patience = bounds.patience();
    for (name, holds) in by_name(holds) {
        let mut grants: Vec<_> = holds.iter().filter_map(|it| it.granted).collect();
        grants.sort_unstable();
        for hold in &holds {
            let Some((from, token)) = hold.granted else {
                continue;
            };
            let relied = hold.valid.last().map_or(from, |&(_, until)| until);
            let until = hold.ended.unwrap_or(relied);
            let later = &grants[grants.partition_point(|&(at, _)| at <= from)..];
            let meanwhile = later.iter().take_while(|&&(at, _)| at < relied);
            let mut newer = meanwhile.filter(|&&(_, other)| other > token);
            let Some(&(at, other)) = newer.next() else {
                continue;
            };
            let limit = at.max(bounds.healed) + patience;
            let problem = format!(
                "lock {name}: {} has {token} until {until:?} and was not told of {other} at {at:?}",
                hold.attempt
            );
            if hold.told.is_some_and(|told| told <= limit) {
                // As promised.
            } else if hold.told.is_none() && hold.ended.is_some_and(|ended| ended <= limit) {
                findings.unaware.push(problem);
            } else {
                findings.silent.push(problem);
            }
        }
    }
}

/// The longest time without a grant while everybody contends, and when it was over.
fn outage<'a>(holds: impl Iterator<Item = &'a Hold>, bounds: &Bounds) -> (Duration, Duration) {
    let mut grants: Vec<At> = holds.filter_map(|it| Some(it.granted?.0)).collect();
    grants.sort_unstable();
    let mut before = bounds.fault;
    let mut longest = (Duration::ZERO, Duration::ZERO);
    for at in grants
        .into_iter()
        .filter(|at| (bounds.fault..bounds.stopped).contains(at))
    {
        longest = longest.max((at.saturating_sub(before), at.saturating_sub(bounds.fault)));
        before = at;
    }
    let never = bounds.stopped.saturating_sub(before);
    longest.max((never, bounds.stopped.saturating_sub(bounds.fault)))
}
