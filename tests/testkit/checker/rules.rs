//! The rules that every history keeps, simulated or of real servers: no two rely on a lock at once,
//! and fencing tokens are unique and grow. Times are of any kind, and so are those who hold.

use std::collections::BTreeMap;

/// When a holder may rely on a lock; the end is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval<H, T> {
    pub name: usize,
    pub holder: H,
    pub token: u64,
    pub from: T,
    pub until: T,
}

/// A grant of one lock as it was told.
#[derive(Clone, Copy, Debug)]
pub struct Grant<H, T> {
    pub token: u64,
    pub holder: H,
    pub asked: T,
    pub told: T,
}

/// All pairs of intervals of one lock that overlap, those that began first in front.
pub fn overlaps<H: Copy, T: Copy + Ord>(
    intervals: impl IntoIterator<Item = Interval<H, T>>,
) -> Vec<[Interval<H, T>; 2]> {
    let sorted = intervals.into_iter().filter(|it| it.from < it.until);
    let mut sorted: Vec<_> = sorted.collect();
    sorted.sort_by_key(|it| (it.name, it.from, it.until));
    let mut pairs = Vec::new();
    let mut open: Vec<Interval<H, T>> = Vec::new();
    for it in sorted {
        open.retain(|before| before.name == it.name && before.until > it.from);
        pairs.extend(open.iter().map(|before| [*before, it]));
        open.push(it);
    }
    pairs
}

/// Grants of one lock to different holders that have one token, the first in front.
pub fn twins<H: Copy + PartialEq, T: Copy>(grants: &[Grant<H, T>]) -> Vec<[Grant<H, T>; 2]> {
    let mut first = BTreeMap::new();
    let pairs = grants.iter().map(|grant| {
        let first = *first.entry(grant.token).or_insert(*grant);
        [first, *grant]
    });
    pairs.filter(|[a, b]| a.holder != b.holder).collect()
}

/// Grants of one lock that were told before another was asked for and have no smaller token, unless
/// it is the same grant.
pub fn shrunk<H: Copy + PartialEq, T: Copy + Ord>(grants: &[Grant<H, T>]) -> Vec<[Grant<H, T>; 2]> {
    let (mut told, mut asked) = (grants.to_vec(), grants.to_vec());
    told.sort_by_key(|grant| grant.told);
    asked.sort_by_key(|grant| grant.asked);
    let mut told = told.into_iter().peekable();
    let mut largest: Option<Grant<H, T>> = None;
    let mut pairs = Vec::new();
    for grant in asked {
        while let Some(before) = told.next_if(|before| before.told < grant.asked) {
            if largest.is_none_or(|largest| largest.token < before.token) {
                largest = Some(before);
            }
        }
        let Some(before) = largest else { continue };
        let is_same = before.token == grant.token && before.holder == grant.holder;
        if grant.token <= before.token && !is_same {
            pairs.push([before, grant]);
        }
    }
    pairs
}
