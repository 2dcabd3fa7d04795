//! The stories of `scenario.rs`, told of every kind, and of an older Redisson.

use crate::{
    agent::Version,
    contention,
    redisson::Kind,
    scenario::{self, Pair},
};

macro_rules! stories {
    ($module:ident: $version:ident, Java $java:ident, we $ours:ident, $($story:ident),+) => {
        mod $module {
            use super::*;

            const PAIR: Pair = Pair { java: Kind::$java, ours: Kind::$ours };

            $(
                #[tokio::test]
                async fn $story() {
                    scenario::$story(Version::$version, PAIR).await;
                }
            )+
        }
    };
    ($module:ident: $version:ident, Java $java:ident, we $ours:ident) => {
        stories! {
            $module: $version, Java $java, we $ours,
            java_holds_and_we_wait,
            we_hold_and_java_waits,
            a_name_with_a_hash_tag_is_shared,
            either_side_takes_it_again,
            javas_lease_ends_and_we_go_on,
            our_lease_ends_and_java_goes_on,
            the_watchdog_of_either_side_keeps_it,
            a_forced_unlock_is_told_as_lost
        }
    };
}

stories! { plain: Current, Java Plain, we Plain }
stories! { fenced: Current, Java Fenced, we Plain }

stories! { fair: Current, Java Fair, we Fair }
stories! { write_and_write: Current, Java Write, we Write }
stories! { read_and_write: Current, Java Read, we Write }
stories! { write_and_read: Current, Java Write, we Read }

stories! { older_plain: Older, Java Plain, we Plain }
// Not the end of our lease: before 3.32, a Redisson waiter of a fair lock that looks in the last
// millisecond of a lease sleeps until it is told something, and nobody tells it of that, also among
// Redisson clients alone.
stories! {
    older_fair: Older, Java Fair, we Fair,
    java_holds_and_we_wait, we_hold_and_java_waits, javas_lease_ends_and_we_go_on
}
stories! {
    older_read_and_write: Older, Java Read, we Write,
    java_holds_and_we_wait, we_hold_and_java_waits, the_watchdog_of_either_side_keeps_it
}
stories! {
    older_write_and_read: Older, Java Write, we Read,
    java_holds_and_we_wait, we_hold_and_java_waits, the_watchdog_of_either_side_keeps_it
}

#[tokio::test]
async fn contenders_for_a_plain_lock_exclude_each_other() {
    contention::for_one_lock(Version::Current, Kind::Plain, 100).await;
}

#[tokio::test]
async fn contenders_for_a_fenced_lock_exclude_each_other() {
    contention::for_one_lock(Version::Current, Kind::Fenced, 100).await;
}

#[tokio::test]
async fn contenders_for_a_fair_lock_exclude_each_other() {
    contention::for_one_lock(Version::Current, Kind::Fair, 100).await;
}

#[tokio::test]
async fn contenders_for_a_write_lock_exclude_each_other() {
    contention::for_one_lock(Version::Current, Kind::Write, 100).await;
}

#[tokio::test]
async fn contenders_of_an_older_redisson_exclude_each_other() {
    for kind in [Kind::Plain, Kind::Fair, Kind::Write] {
        contention::for_one_lock(Version::Older, kind, 40).await;
    }
}
