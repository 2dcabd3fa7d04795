//! What is made of the answers of sentinels.

use deadpool_redis::redis::parse_redis_value;

use super::*;

#[test]
fn trouble_says_how_many_were_asked_and_how_many_failed() {
    let named = || Ok(Some(at(1, "h")));
    let failed = || Err("connection refused".to_owned());
    assert_eq!(trouble(&[named(), named()], "locks"), None);
    let expected = "of 3 sentinels 2 failed (connection refused)";
    let text = trouble(&[failed(), named(), failed()], "locks");
    assert_eq!(text.as_deref(), Some(expected));
    let expected = "of 2 sentinels 1 failed (connection refused), 1 do not know the service locks";
    assert_eq!(
        trouble(&[Ok(None), failed()], "locks").as_deref(),
        Some(expected)
    );
}

#[test]
fn a_failure_whose_text_contains_the_time_is_logged_once() {
    let text = |failures: usize, at: u64| {
        let failed = Err(format!("certificate expired: verified at {at} (UNIX)"));
        trouble(&vec![failed; failures], "locks").unwrap()
    };
    assert!(is_logged(&text(1, 99), &text(1, 100)));
    assert!(!is_logged(&text(1, 99), &text(2, 99)));
    let refused = trouble(&[Err("connection refused".to_owned())], "locks");
    assert!(!is_logged(&text(1, 99), &refused.unwrap()));
    let ignorant = |second| {
        let failed = Err("connection refused".to_owned());
        trouble(&[failed, Ok(None), Ok(second)], "locks").unwrap()
    };
    assert!(!is_logged(&ignorant(Some(at(1, "a"))), &ignorant(None)));
}

fn at(epoch: u64, host: &str) -> Named {
    Named {
        epoch,
        address: Address {
            host: host.to_owned(),
            port: 6379,
        },
    }
}

#[test]
fn the_newest_configuration_is_believed_and_of_equals_the_known_one() {
    assert_eq!(newest(&[], None), None);
    let (old, other) = (at(1, "b"), at(1, "a"));
    for known in [None, Some(&old), Some(&other)] {
        let named = [old.clone(), at(2, "a"), old.clone()];
        assert_eq!(newest(&named, known), Some(at(2, "a")));
    }
    for known in [&old, &other] {
        let named = [old.clone(), other.clone()];
        assert_eq!(newest(&named, Some(known)), Some(known.clone()));
    }
    for known in [None, Some(&old)] {
        let named = [other.clone(), old.clone(), other.clone()];
        assert_eq!(newest(&named, known), Some(other.clone()), "most name it");
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_configuration_counts_when_most_sentinels_have_had_it_for_a_while() {
    let known = at(7, "a");
    let (same, other, newer) = (at(0, "a"), at(1, "b"), at(8, "c"));
    let step = OLDER_FOR / 4;
    // The answers of each step, of three sentinels, and whether the newest is believed.
    let cut_off = vec![(vec![&other], false); 6];
    let anew = vec![
        (vec![&other, &other], false),
        (vec![&other, &other], false),
        (vec![&other, &other, &same], false),
        (vec![&other, &other], false),
        (vec![&other, &other], true),
        (vec![&newer, &other, &other], true),
    ];
    let between = vec![
        (vec![&same, &same], false),
        (vec![&same, &same, &known], true),
        (vec![&same, &same], false),
        (vec![&other, &other], false),
        (vec![&same, &same], false),
        (vec![&same, &same], false),
    ];
    let as_new = at(7, "b");
    let stranger = vec![(vec![&as_new], false); 6];
    let outvoted = vec![
        (vec![&as_new, &known, &as_new], false),
        (vec![&as_new], false),
        (vec![&as_new, &as_new], false),
        (vec![&as_new, &known, &as_new], false),
        (vec![&as_new, &as_new], false),
        (vec![&as_new, &as_new], false),
        (vec![&as_new, &as_new], true),
    ];
    for rows in [cut_off, anew, between, stranger, outvoted] {
        let mut older = Older::default();
        for (step_at, (answers, expected)) in rows.into_iter().enumerate() {
            let answers: Vec<Named> = answers.into_iter().cloned().collect();
            let newest = newest(&answers, Some(&known)).unwrap();
            let believed = older.believes(&newest, Some(&known), &answers, 3);
            assert_eq!(believed, expected, "step {step_at}: {answers:?}");
            tokio::time::advance(step).await;
        }
    }
    assert!(Older::default().believes(&same, None, &[], 3));
}

#[test]
fn what_a_sentinel_says_is_read_in_either_form() {
    let text = |text: &str| Value::BulkString(text.into());
    // The address is in both, and that of the first is that of the old master while the
    // election lasts.
    let words = ["ip", "10.0.0.2", "port", "6379", "config-epoch", "7"].map(text);
    let address = Value::Array(vec![text("10.0.0.1"), text("6379")]);
    let expected = Ok(Some(at(7, "10.0.0.1")));
    let array = [Value::Array(words.to_vec()), address.clone()];
    assert_eq!(named(&array), expected);
    let [ip, host, port, number, epoch, seven] = words;
    let map = Value::Map(vec![(ip, host), (port, number), (epoch, seven)]);
    assert_eq!(named(&[map.clone(), address.clone()]), expected);
    assert_eq!(named(&[map, Value::Nil]), Ok(None));
    assert_eq!(named(&[Value::Nil, address.clone()]), Ok(None));
    let other = Value::Array(vec![text("ip"), text("x")]);
    assert_eq!(named(&[other, address]), Ok(None));
}

#[test]
fn a_refusal_is_not_taken_for_a_service_that_is_not_known() {
    let said = |text: &str| parse_redis_value(text.as_bytes()).unwrap();
    let unknown = said("-ERR No such master with that name\r\n");
    assert_eq!(named(&[unknown, Value::Nil]), Ok(None));
    let refused = || said("-NOPERM this user has no permissions\r\n");
    let text = Err("NOPERM this user has no permissions".to_owned());
    assert_eq!(named(&[refused(), refused()]), text);
}

#[tokio::test]
async fn only_another_address_is_another_master() {
    let config = RedisConfig {
        url: "redis+sentinel://localhost:1/main".to_owned(),
        ..RedisConfig::default()
    };
    let (wakes, mut woken) = WakeSender::channel();
    let election = Election {
        master: None,
        trouble: None,
        asked_at: None,
    };
    let mut watcher = Watcher {
        url: SentinelUrl::parse(&config.url).unwrap(),
        config,
        sentinels: Vec::new(),
        election: watch::Sender::new(election),
        ask: Arc::default(),
        wakes,
        known: None,
        older: Older::default(),
    };
    for (named, is_another) in [
        (at(1, "a"), false),
        (at(3, "a"), false),
        (at(4, "b"), true),
        (at(5, "b"), false),
    ] {
        watcher.follow(named.clone());
        // What is known decides what is older.
        assert_eq!(watcher.known.as_ref(), Some(&named));
        let wake = is_another.then_some(Wake::TakenOver);
        assert_eq!(woken.try_recv().ok(), wake, "{named:?}");
    }
}
