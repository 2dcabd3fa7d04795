//! What is refused, with the field `locks`, and limits.

use tonic_types::StatusExt as _;

use super::{Call, all, back, specs, take, tried, try_all};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn locks_are_checked() {
    let (world, mut client) = World::with_client().await;
    let many: Vec<String> = (0..10_000).map(|n| format!("n{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let unknown_mode = pb::LockSpec {
        name: "a".to_owned(),
        mode: 99,
    };
    let cases: [(Vec<pb::LockSpec>, &str); 8] = [
        (Vec::new(), "must not be empty"),
        (
            specs(&many),
            "must have at most 1000 entries, but has 10000",
        ),
        (specs(&["a", "b", "a:read"]), "`a` is named in two modes"),
        (specs(&["a:write", "a:read"]), "`a` is named in two modes"),
        (specs(&["a", "a:fair"]), "`a` is named in two modes"),
        (specs(&["a", "{"]), "[1].name: has an opening brace"),
        (specs(&["a", ""]), "[1].name: must not be empty"),
        (vec![unknown_mode], "[0].mode: 99 is not a mode"),
    ];
    for (locks, why) in cases {
        let try_all = try_all(&[], "x").of_locks(locks.clone());
        let all = all(&[], "x", secs(1)).of_locks(locks.clone());
        let back = back(&[], "x").of_locks(locks);
        let refused = [
            client.try_all(try_all).await.unwrap_err(),
            client.api.acquire_all(all).await.unwrap_err(),
            client.api.release_all(back).await.unwrap_err(),
        ];
        for status in refused {
            assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
            assert_eq!(reason(&status), "INVALID_LOCKS");
            let violations = status.get_details_bad_request().unwrap().field_violations;
            assert_eq!(violations[0].field, "locks");
            assert!(violations[0].description.starts_with(why), "{status:?}");
        }
    }
    assert_eq!(world.store.key_count(), 0, "nothing was changed");
}

#[tokio::test(start_paused = true)]
async fn one_lock_and_the_same_lock_twice_are_one() {
    let (_world, mut client) = World::with_client().await;
    for words in [vec!["a"], vec!["a", "a"]] {
        let taken = tried(&mut client, try_all(&words, "x")).await;
        assert_eq!((taken.grants.len(), taken.grants[0].hold_count), (1, 1));
        let given = super::released(&mut client, back(&words, "x")).await;
        assert_eq!(given, ["a=0"]);
    }
}

#[tokio::test(start_paused = true)]
async fn names_in_different_slots_are_fine_on_one_store() {
    let (_world, mut client) = World::with_client().await;
    let words = ["{1}a", "{1}b", "{2}a", "plain"];
    assert_eq!(
        tried(&mut client, try_all(&words, "x")).await.grants.len(),
        4
    );
}

#[tokio::test(start_paused = true)]
async fn what_can_never_be_had_is_an_error_that_names_the_lock_and_takes_nothing() {
    let (world, mut client) = World::with_client().await;
    world.redis(&["SET", "string", "x"]);
    tried(&mut client, try_all(&["r:read"], "x")).await;
    let keys = world.store.key_count();
    for (words, expected) in [
        (["a", "string"], "WRONG_KIND"),
        (["string:fair", "a"], "WRONG_KIND"),
        (["a", "r"], "WRONG_KIND"),
        (["a:fair", "r"], "WRONG_KIND"),
        (["a", "r:write"], "SELF_DEADLOCK"),
        (["a:fair", "r:write"], "SELF_DEADLOCK"),
    ] {
        let refused = client.try_all(try_all(&words, "x")).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
        assert_eq!(reason(&refused), expected, "{words:?}");
        let named = words.iter().map(|word| word.split(':').next().unwrap());
        let named: Vec<_> = named.filter(|name| *name != "a").collect();
        assert!(refused.message().starts_with(named[0]), "{refused:?}");
        let mut call = Call::start(&mut client, all(&words, "x", secs(9))).await;
        assert_eq!(refusal(call.end().await), expected);
        assert!(
            super::holders(&mut client, "a").await.is_empty(),
            "{words:?}"
        );
    }
    // The counter of `a` is all that may have come.
    assert!(world.store.key_count() <= keys + 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_has_room_for_all_or_takes_none() {
    let options = Options::with(|it| it.limits.grants_per_session_max = 3);
    let world = World::with(&options);
    let mut client = world.client(0).await;
    let mut session = client.open().await;
    take(&mut session, &["a", "b"]).await;
    for words in [["c", "d"], ["c:fair", "d"]] {
        let request = try_all(&words, "").of_session(session.id());
        let refused = client.try_all(request).await.unwrap_err();
        expect_status(&refused, Code::ResourceExhausted, "GRANTS_PER_SESSION_MAX");
        assert!(super::holders(&mut client, "c").await.is_empty());
    }
    assert_eq!(take(&mut session, &["a", "b", "c"]).await.len(), 3);
}
