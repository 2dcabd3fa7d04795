//! What the answers of all voters come to, where every call counts them in the same way.

use crate::script::CallError;

/// What each voter answered, in order.
pub(super) type Answers<T> = Vec<Result<T, CallError>>;

/// How many answered, with an outcome or with a refusal that concerns the lock.
pub(super) fn answered<T>(answers: &Answers<T>) -> usize {
    let has_answer = |answer: &&Result<T, CallError>| match answer {
        Ok(_) => true,
        Err(error) => !error.is_transient(),
    };
    answers.iter().filter(has_answer).count()
}

/// The refusal that the most voters agree on, and how many they are.
pub(super) fn common_refusal<'a>(
    errors: impl Iterator<Item = &'a CallError>,
) -> Option<(CallError, usize)> {
    let refusals: Vec<_> = errors.filter(|error| !error.is_transient()).collect();
    let same = |error: &CallError| {
        let kind = std::mem::discriminant(error);
        let others = refusals.iter();
        others
            .filter(|other| std::mem::discriminant(**other) == kind)
            .count()
    };
    let counted = refusals.iter().map(|error| ((*error).clone(), same(error)));
    counted.max_by_key(|(_, count)| *count)
}

/// The value that at least `count` of them reach; `None` if there are fewer.
pub(super) fn reached<T: Ord>(values: impl Iterator<Item = T>, count: usize) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable_by(|a, b| b.cmp(a));
    let last = count.checked_sub(1)?;
    (values.len() > last).then(|| values.swap_remove(last))
}
