use std::time::Duration;

use tokio::time::Instant;

use super::*;

pub(crate) fn limits() -> Limits {
    Limits {
        key_prefix: "".into(),
        name_bytes_max: 16,
        owner_bytes_max: 8,
        request_id_bytes_max: 8,
        client_name_bytes_max: 8,
        lease_min: Duration::from_millis(100),
        lease_max: Duration::from_secs(60),
        waiters_per_lock_max: 4,
        waiters_max: 8,
        waits_per_session_max: 4,
        sessions_max: 4,
        grants_per_session_max: 4,
        locks_per_request_max: 4,
    }
}

#[test]
fn names_are_checked() {
    for good in [
        "a",
        "a b",
        "ünïcode",
        "e\u{301}",
        "{a}:b",
        "0123456789abcdef",
    ] {
        assert!(LockName::parse(good, &limits()).is_ok(), "{good}");
    }
    let hidden = [
        "a\u{202e}b",
        "a\u{200b}",
        "\u{feff}a",
        "a\u{e0041}",
        "a\u{ad}",
    ];
    let bad = ["", "0123456789abcdefg", "a\0b", "a\n", "{a", "a}", "{}"];
    for bad in bad.into_iter().chain(hidden) {
        assert_eq!(
            LockName::parse(bad, &limits()).unwrap_err().field,
            "name",
            "{bad:?}"
        );
    }
}

#[test]
fn a_prefix_is_in_the_store_key_and_not_in_the_public_name() {
    let under = |prefix: &str| Limits {
        key_prefix: prefix.into(),
        ..limits()
    };
    let name = LockName::parse("0123456789abcdef", &under("app:")).unwrap();
    assert_eq!(name.store_key(), "app:0123456789abcdef");
    assert_eq!(
        (name.public(), name.to_string()),
        ("0123456789abcdef", name.public().to_owned())
    );
    for bad in ["a}", "{}", "redisson_sc:{a}"] {
        assert!(LockName::parse(bad, &under("app:")).is_err(), "{bad}");
    }
    // What counts is the name in the store.
    assert!(LockName::parse("{}", &under("{app}:")).is_ok());
    assert!(LockName::parse("a", &under("{app")).is_err());
}

#[test]
fn owners_cannot_pass_for_fields_of_another_kind() {
    for bad in ["mode", "a:write", "123456789", "a\tb", ""] {
        assert_eq!(
            Owner::sessionless(bad, &limits()).unwrap_err().field,
            "owner",
            "{bad:?}"
        );
    }
    let session = SessionId::random();
    let owner = Owner::in_session(session.clone(), "", &limits()).unwrap();
    assert_eq!(owner.field(), format!("{}:0", session.as_str()));
    assert_eq!(Owner::from_field(owner.field()).session, Some(session));
    assert_eq!(Owner::from_field("ci-42").session, None);
}

#[test]
fn a_marked_owner_is_one_that_only_its_caller_can_name() {
    let owner = Owner::sessionless("ci/42", &limits()).unwrap();
    let marked = owner.clone().marked("aa");
    assert_eq!(
        (marked.field(), marked.label.as_ref()),
        ("aa/ci/42", "ci/42")
    );
    assert_eq!(marked.label_under("aa"), Some("ci/42"));
    assert_eq!(marked.label_under("a"), None);
    assert_eq!(
        Owner::from_field("aa/ci/42").label_under("aa"),
        Some("ci/42")
    );
    assert_eq!(owner.label_under("aa"), None);
    assert_ne!(marked.digest(), owner.marked("bb").digest());
    let in_session = Owner::in_session(SessionId::random(), "", &limits()).unwrap();
    assert_eq!(in_session.clone().marked("aa"), in_session);
}

#[test]
fn a_repeat_of_a_request_makes_the_same_owner() {
    let name = LockName::parse("a", &limits()).unwrap();
    let request = RequestId::parse("r", &limits()).unwrap();
    let made = || Owner::made(&name, request.as_ref());
    assert_eq!(made().field(), made().field());
    assert_ne!(
        Owner::made(&name, None).field(),
        Owner::made(&name, None).field()
    );
}

#[test]
fn a_request_id_for_one_of_several_locks_names_all_of_them() {
    let alone = RequestId::parse("r/1", &limits()).unwrap().unwrap();
    assert_eq!((alone.as_str(), alone.set()), ("r/1", "/"));
    let of_set = alone.of_set("ab").of_set("cd");
    assert_eq!((of_set.as_str(), of_set.set()), ("r/1", "/cd"));
}

#[test]
fn session_ids_are_taken_only_in_the_form_they_were_given() {
    let id = SessionId::random();
    assert_eq!(SessionId::parse(id.as_str()), Some(id.clone()));
    assert_eq!(SessionId::parse(&id.as_str().to_uppercase()), None);
    assert_eq!(SessionId::parse("guess"), None);
}

#[test]
fn a_reason_of_a_loss_has_a_name_and_that_of_an_operator_a_text() {
    let forced = |preempted| LostReason::ForceReleased {
        reason: "it hangs".into(),
        closed_until: None,
        preempted,
    };
    let rows = [
        (LostReason::Expired, "EXPIRED", None),
        (LostReason::TakenOver, "TAKEN_OVER", None),
        (LostReason::StoreUnreachable, "STORE_UNREACHABLE", None),
        (LostReason::ClockStepped, "CLOCK_STEPPED", None),
        (LostReason::HandedOver, "HANDED_OVER", None),
        (forced(false), "FORCE_RELEASED", Some("it hangs")),
        (forced(true), "PREEMPTED", Some("it hangs")),
    ];
    for (reason, name, detail) in rows {
        assert_eq!((reason.name(), reason.detail()), (name, detail));
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_by_force_stays_closed_for_the_rest_of_the_grace_period() {
    let closed = |closed_until| LostReason::ForceReleased {
        reason: "it hangs".into(),
        closed_until,
        preempted: false,
    };
    let reason = closed(Some(Instant::now() + Duration::from_secs(10)));
    tokio::time::advance(Duration::from_secs(4)).await;
    assert_eq!(reason.closed_for(), Some(Duration::from_secs(6)));
    assert_eq!(closed(None).closed_for(), None);
    assert_eq!(LostReason::Expired.closed_for(), None);
}

#[test]
fn a_lease_is_within_the_limits_which_a_refusal_names() {
    let limits = |min: Duration, max| Limits {
        lease_min: min,
        lease_max: max,
        ..limits()
    };
    let (ms, secs) = (Duration::from_millis, Duration::from_secs);
    let day = limits(ms(100), secs(24 * 3600));
    for good in [ms(100), secs(1), secs(24 * 3600)] {
        assert_eq!(Lease::new(good, &day).map(Lease::get), Ok(good));
    }
    let why = |limits: &Limits| Lease::new(secs(48 * 3600), limits).unwrap_err();
    assert_eq!(why(&day).why, "must be from 100ms to 24h");
    assert_eq!(why(&day).field, "lease");
    assert!(Lease::new(ms(99), &day).is_err());
    let odd = limits(secs(3600), secs(5400));
    assert_eq!(why(&odd).why, "must be from 1h to 5400s");
    let none = limits(Duration::ZERO, ms(3_600_500));
    assert_eq!(why(&none).why, "must be from 0ns to 3600.5s");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_relied_on_except_for_a_hundredth_and_two_milliseconds() {
    let now = Instant::now();
    for (lease, relied_on) in [(10_000, 9_898), (100, 97), (2, 0), (0, 0)] {
        let until = safe_until(now, Duration::from_millis(lease));
        assert_eq!((until - now).as_millis(), relied_on, "{lease}");
    }
}

#[test]
fn a_session_is_told_by_a_digest_that_does_not_show_its_id() {
    let [one, other] = [SessionId::random(), SessionId::random()];
    let digest = one.digest();
    assert_eq!(digest, SessionId::parse(one.as_str()).unwrap().digest());
    assert_ne!(digest, other.digest());
    assert!(!digest.is_empty() && !one.as_str().contains(&digest));
}
