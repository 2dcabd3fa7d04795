use super::*;

#[test]
fn names_follow_redisson() {
    assert_eq!(channel("build"), "redisson_lock__channel:{build}");
    assert_eq!(channel("a:{b}"), "redisson_lock__channel:a:{b}");
    assert_eq!(counter("build").to_string(), "redisson_lock_token:{build}");
    assert_eq!(
        record("build", "r1").to_string(),
        "lockkeeper_request:{build}:r1"
    );
    assert_eq!(permit_channel("build"), "redisson_sc:{build}");
    assert_eq!(permit_leases("build").to_string(), "{build}:timeout");
    assert_eq!(permit_leases("a:{b}").to_string(), "a:{b}:timeout");
    assert_eq!(
        latch_channel("a:{b}"),
        "redisson_countdownlatch__channel__{a:{b}}"
    );
}

#[test]
fn names_that_would_leave_their_slot_are_refused() {
    for good in ["a", "a:b", "x{a}y", "{a}{b}", "{a{b}}", "ü", "a:timeout"] {
        assert_eq!(refuse(good), None, "{good}");
    }
    for bad in [
        "{",
        "}",
        "a}b",
        "{a",
        "{a}}",
        "{}a",
        "redisson_lock_token:{a}",
        "lockkeeper_x",
        "{a}",
        "{a}:timeout",
        "b{a}:timeout",
        "{a}:x:rwlock_timeout:1",
    ] {
        assert!(refuse(bad).is_some(), "{bad}");
    }
}

/// Two names that share a key would take each other's permits, places and tokens.
#[test]
fn no_two_names_share_a_key() {
    let names = [
        "a",
        "{a}",
        "{a}:timeout",
        "x{a}",
        "x{a}:timeout",
        "{a}{a}",
        "a:timeout",
    ];
    let used = names.into_iter().filter(|name| refuse(name).is_none());
    let mut seen = std::collections::HashMap::new();
    for name in used {
        for key in [
            lock(name),
            counter(name),
            queue(name),
            kind(name),
            permit_leases(name),
        ] {
            let other = seen.insert(key.to_bytes(), name);
            assert!(other.is_none(), "{name} shares a key with {other:?}");
        }
    }
    assert_eq!(seen.len(), 4 * 5);
}

#[test]
fn keys_tell_their_names() {
    for name in ["build", "a:{b}", "{a}{b}", "ü"] {
        assert_eq!(named_by(&lock(name).to_bytes()).as_deref(), Some(name));
        assert_eq!(named_by(&queue(name).to_bytes()).as_deref(), Some(name));
        for other in [counter(name), kind(name), record(name, "r"), forced(name)] {
            assert_eq!(named_by(&other.to_bytes()), None);
        }
    }
    assert_eq!(named_by(b"\xff"), None);
    assert_eq!(named_by(b"a}"), None);
    assert_eq!(named_by(b"redisson_lock_queue:"), None);
}

#[test]
fn the_field_of_a_grant_tells_its_owner() {
    let session = "6fa459ea-ee8a-3ca4-894e-36c7f0b2d6f1";
    for label in ["0", "a:b", "#7:x", "ü"] {
        let owner = format!("{session}:{label}");
        let field = grant_field(&owner, 42).unwrap();
        assert_eq!(field, format!("{session}#42:{label}"));
        assert_eq!(owner_of(&field), owner);
        assert_eq!(owner_of(&owner), owner, "no grant is named");
    }
    assert_eq!(grant_field("ci-42", 42), None);
    for other in ["ci-42", "ci#42:0", "x", "ü#1:0"] {
        assert_eq!(owner_of(other), other);
    }
    for number in ["", "4x"] {
        let other = format!("6fa459ea-ee8a-3ca4-894e-36c7f0b2d6f1#{number}:0");
        assert_eq!(owner_of(&other), other);
    }
}

/// What Redis hashes: the first non-empty `{...}`, else all.
fn hash_tag(key: &str) -> &str {
    match key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
    {
        Some((tag, _)) if !tag.is_empty() => tag,
        _ => key,
    }
}

proptest::proptest! {
    #[test]
    fn all_keys_of_a_name_share_its_hash_tag(name in "[a-c{}:]{1,8}") {
        if refuse(&name).is_none() {
            let keys = [
                channel_key(&name),
                counter(&name),
                record(&name, "}{r"),
                rw_channel_key(&name),
                queue(&name),
                queue_deadlines(&name),
                vouched_waiters(&name),
                read_holds(&name, "}{o"),
                readers(&name),
                writer_waiting(&name),
                permit_leases(&name),
                permit_owners(&name),
                kind(&name),
                forced(&name),
                holders_reached(&name, "}{i"),
                note(&name),
                reader_note(&name, "}{o"),
            ];
            let channels = [
                fair_channel(&name, "}{o"),
                election(&name),
                permit_channel(&name),
            ];
            for key in channels.into_iter().chain(keys.map(|key| key.to_string())) {
                proptest::prop_assert_eq!(hash_tag(&key), hash_tag(&name));
            }
        }
    }
}
