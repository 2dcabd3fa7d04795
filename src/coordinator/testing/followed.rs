//! Names that are followed: who may, and what is heard of them.

use lockkeeper_access::{Account, Quotas};
use lockkeeper_store::host::{Subscriptions, Wake};
use std::sync::Arc;

use super::{account, name, shared};
use crate::{
    error::{Error, Limit},
    follow::followed::{Followed, Following, Follows, Heard},
};

type All = Arc<Follows<u32>>;
type Joined = (Following<u32>, Option<Arc<Followed<u32>>>);

fn follows(max: usize) -> All {
    Follows::new(Subscriptions::of(Vec::new()).0, max)
}

fn join(all: &All, of: &str, max: Option<usize>, account: &Account) -> Result<Joined, Error> {
    let channels = [shared(of), shared(&format!("{of}:rw"))];
    all.join((&name(of), &channels), max, account)
}

fn heard(followed: &Followed<u32>) -> (bool, bool) {
    let Heard { release, gap, .. } = std::mem::take(&mut *followed.heard.lock());
    (release, gap)
}

#[tokio::test]
async fn a_name_is_looked_at_by_one_task_until_nobody_follows_it() {
    let (all, nobody) = (follows(10), Account::default());
    assert!(!all.is_in_use());
    let (first, task) = join(&all, "a", None, &nobody).unwrap();
    assert!(task.is_some() && all.is_in_use());
    let (second, task) = join(&all, "a", None, &nobody).unwrap();
    assert!(task.is_none());
    let channels = [shared("a"), shared("a:rw")];
    drop(first);
    assert!(!all.forget(&channels), "there is another");
    drop(second);
    let (_other, _task) = join(&all, "b", None, &nobody).unwrap();
    assert!(all.forget(&channels) && all.is_in_use());
    assert!(join(&all, "a", None, &nobody).unwrap().1.is_some());
}

#[tokio::test]
async fn followers_are_limited_in_total_and_for_each_name() {
    let (all, nobody) = (follows(3), Account::default());
    let full = |limit| Some(Error::LimitReached(limit));
    let refused = |of: &str| join(&all, of, Some(2), &nobody).err();
    let first = join(&all, "a", Some(2), &nobody).unwrap();
    let _second = join(&all, "a", Some(2), &nobody).unwrap();
    assert_eq!(refused("a"), full(Limit::WaitersPerLock));
    let _third = join(&all, "b", Some(2), &nobody).unwrap();
    assert_eq!(refused("b"), full(Limit::Waiters));
    drop(first);
    assert_eq!(refused("a"), None);
    for _ in 0..10 {
        assert_eq!(refused("a"), None, "each of them has gone");
    }
}

#[tokio::test]
async fn a_caller_with_a_quota_follows_each_name_so_often() {
    let ci = account(Quotas {
        waiters_per_lock: 1,
        ..Quotas::default()
    });
    let all = follows(10);
    let first = join(&all, "a", Some(9), &ci).unwrap();
    let again = || join(&all, "a", Some(9), &ci).err();
    assert!(matches!(again(), Some(Error::QuotaReached(_))));
    assert!(join(&all, "b", Some(9), &ci).is_ok());
    drop(first);
    assert_eq!(again(), None);
}

#[tokio::test]
async fn what_is_heard_adds_up_until_the_next_look() {
    let (all, nobody) = (follows(10), Account::default());
    let (_one, a) = join(&all, "a", None, &nobody).unwrap();
    let (_other, b) = join(&all, "b", None, &nobody).unwrap();
    let (a, b) = (a.unwrap(), b.unwrap());
    let message = |channel: &str, payload: &'static [u8]| {
        all.follow(&Wake::Message {
            channel: channel.to_owned(),
            payload: payload.into(),
        });
    };
    message("a:rw", b"0");
    assert_eq!((heard(&a), heard(&b)), ((true, false), (false, false)));
    message("a", b"-1");
    assert_eq!(heard(&a), (false, false), "no release");
    a.hint.notified().await;
    all.follow(&Wake::Gap);
    message("a", b"0");
    message("a", b"-1");
    assert_eq!((heard(&a), heard(&b)), ((true, true), (false, true)));
    all.hint("b", true);
    all.hint("c", true);
    assert_eq!((heard(&a), heard(&b)), ((false, false), (true, false)));
    b.hint.notified().await;
}
