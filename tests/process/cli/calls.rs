//! Commands of one call, their answers and exit codes; usage and settings.

use super::tool::{Place, ask, assert_code, fake, lockkeeper, start, stderr, stdout};
use crate::fake::TOKEN;

#[test]
fn acquire_prints_the_grant() {
    let fake = fake();
    let output = ask(
        &fake,
        &[
            "acquire",
            "orders",
            "--wait",
            "1500ms",
            "--lease",
            "3s",
            "--request-id",
            "r",
        ],
    );
    assert_code(&output, 0);
    assert_eq!(
        stdout(&output),
        format!(
            "granted orders mode=exclusive owner=0 fencing_token={TOKEN} hold_count=1 lease=3s \
             valid_for=2s940ms\n"
        )
    );
    let waiting = "lockkeeper: waiting for orders at position 1, the holder's lease ends in 12s\n";
    assert_eq!(stderr(&output), waiting);
    let request = &fake.seen()[0];
    for part in ["seconds: 1, nanos: 500000000", "request_id: \"r\""] {
        assert!(request.contains(part), "{request}");
    }
    let output = ask(&fake, &["acquire", "orders", "--output", "json"]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["granted"]["fencingToken"], TOKEN.to_string());
    fake.set(|it| it.is_busy = true);
    let output = ask(&fake, &["acquire", "orders", "--output", "json"]);
    assert_code(&output, 1);
    assert_eq!(
        stdout(&output),
        "{\"notGranted\":{\"holderRemainingLease\":\"12s\",\
         \"reason\":\"NOT_GRANTED_REASON_WAIT_TIMEOUT\"}}\n"
    );
    let token = TOKEN.to_string();
    assert_code(&ask(&fake, &["check-token", "orders", &token]), 0);
    assert_code(&ask(&fake, &["check-token", "orders", "1"]), 1);
}

#[test]
fn wait_says_when_a_lock_is_free() {
    let fake = fake();
    let output = ask(&fake, &["wait", "orders", "--wait", "1500ms"]);
    assert_code(&output, 0);
    let free = format!("free orders last_fencing_token={TOKEN}\n");
    assert_eq!(stdout(&output), free);
    let waiting = "lockkeeper: waiting for orders, the holder's lease ends in 12s\n";
    assert_eq!(stderr(&output), waiting);
    let request = &fake.seen()[0];
    assert!(
        request.contains("seconds: 1, nanos: 500000000"),
        "{request}"
    );
    fake.set(|it| it.is_busy = true);
    let output = ask(&fake, &["wait", "orders"]);
    assert_code(&output, 1);
    let ended = "not free orders: the wait timed out, the holder's lease ends in 12s\n";
    assert_eq!(stdout(&output), ended);
}

#[test]
fn a_reason_and_labels_go_with_an_acquire() {
    let fake = fake();
    let note = ["--reason", "release 1.4", "--label", "team=web"];
    for command in ["acquire", "try-acquire", "acquire-all", "try-acquire-all"] {
        let output = ask(&fake, &[&[command, "orders"][..], &note].concat());
        let seen = fake.seen();
        let request = seen.last().unwrap();
        for part in ["reason: \"release 1.4\"", "\"team\": \"web\""] {
            assert!(
                request.contains(part),
                "{command}: {request}: {}",
                stderr(&output)
            );
        }
    }
    let asked = fake.seen().len();
    assert_code(&ask(&fake, &["acquire", "orders", "--label", "web"]), 64);
    assert_eq!(fake.seen().len(), asked, "nothing was asked");
}

#[test]
fn describe_prints_who_holds_and_who_waits() {
    let fake = fake();
    let text = |arguments: &[&str]| stdout(&ask(&fake, arguments));
    let lines = [
        &format!(
            "held orders mode=read holders=12 last_fencing_token={TOKEN} remaining_lease=1s500ms"
        ),
        "  holder owner=0 mode=read hold_count=2 remaining_lease=1s500ms \
         session_digest=5feceb66ffc86f38 client_name=search",
        "  and 11 more holders",
        "  waiter position=1 owner=1 mode=write waiting_for=2s session_digest= client_name=",
        "  and 2 more waiters",
        "",
    ];
    assert_eq!(text(&["describe", "orders"]), lines.join("\n"));
    let described = text(&["describe", "orders", "--output", "json"]);
    let described: serde_json::Value = serde_json::from_str(&described).unwrap();
    let expected = serde_json::json!({
        "name": "orders",
        "mode": "LOCK_MODE_READ",
        "holders": [{
            "sessionDigest": "5feceb66ffc86f38", "owner": "0", "holdCount": 2,
            "clientName": "search", "mode": "LOCK_MODE_READ", "remainingLease": "1.500s",
        }],
        "remainingLease": "1.500s",
        "lastFencingToken": TOKEN.to_string(),
        "waiters": [{
            "sessionDigest": "", "owner": "1", "clientName": "", "position": 1, "waitingFor": "2s",
            "mode": "LOCK_MODE_WRITE",
        }],
        "waiterCount": 3,
        "holderCount": 12,
    });
    assert_eq!(described, expected);
}

#[test]
fn a_mode_is_asked_for_as_it_was_given() {
    for (word, name) in [
        ("fair", "LOCK_MODE_FAIR"),
        ("read", "LOCK_MODE_READ"),
        ("write", "LOCK_MODE_WRITE"),
    ] {
        let fake = fake();
        let granted = format!("orders mode={word} owner=0 fencing_token={TOKEN}");
        for (arguments, answer) in [
            (&["acquire", "orders"][..], format!("granted {granted}")),
            (&["try-acquire", "orders"], format!("granted {granted}")),
            (
                &["renew", "orders", "--owner", "0"],
                format!("renewed {granted}"),
            ),
            (
                &["release", "orders", "--owner", "0"],
                "released orders".to_owned(),
            ),
        ] {
            let output = ask(&fake, &[arguments, &["--mode", word]].concat());
            assert_code(&output, 0);
            assert!(stdout(&output).starts_with(&answer), "{output:?}");
        }
        let place = Place::new();
        assert_code(&start(&fake, &place, &["-m", word], "exit 7").end(), 7);
        let seen = fake.seen();
        let asked = |frame: &str| seen.iter().rposition(|seen| seen == frame).unwrap();
        assert_eq!(
            (&*seen[asked("acquire") - 1], &*seen[asked("renew") - 1]),
            (name, name)
        );
        let calls = seen[1..].iter().take_while(|seen| *seen == name).count();
        assert_eq!(calls, 3, "{seen:?}");
    }
}

#[test]
fn several_locks_are_asked_for_at_once() {
    let fake = fake();
    let modes = ["a", "b", "--mode", "write", "--fair", "c", "--read", "d"];
    let output = ask(
        &fake,
        &[&["acquire-all"][..], &modes, &["-w", "1m"]].concat(),
    );
    assert_code(&output, 0);
    let line = |(name, mode): (&str, &str)| {
        format!(
            "granted {name} mode={mode} owner=0 fencing_token={TOKEN} hold_count=1 lease=3s \
             valid_for=2s940ms\n"
        )
    };
    let locks = [("a", "write"), ("b", "write"), ("c", "fair"), ("d", "read")];
    let lines: String = locks.map(line).concat();
    assert_eq!(stdout(&output), lines);
    let waiting = "lockkeeper: waiting for a at position 1, the holder's lease ends in 12s\n";
    assert_eq!(stderr(&output), waiting);
    assert!(fake.seen()[0].contains("seconds: 60"), "{:?}", fake.seen());
    let output = ask(&fake, &[&["try-acquire-all"][..], &modes].concat());
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), lines));
    let json = |arguments: &[&str]| {
        let output = ask(&fake, &[arguments, &["--output", "json"]].concat());
        let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        (output.status.code().unwrap(), json)
    };
    let (_, granted) = json(&["acquire-all", "a", "b"]);
    assert_eq!(granted["granted"]["grants"][1]["name"], "b");
    let release = [
        "release-all",
        "a",
        "twice",
        "lost",
        "--read",
        "r",
        "--owner",
        "0",
    ];
    let output = ask(&fake, &release);
    assert_code(&output, 1);
    let lines = "released a\nstill held twice hold_count=1\nnot held lost\nreleased r\n";
    assert_eq!(stdout(&output), lines);
    let (code, released) = json(&["release-all", "a", "--read", "r", "--owner", "0"]);
    assert_eq!(
        (code, &released["locks"][1]["mode"]),
        (0, &"LOCK_MODE_READ".into())
    );

    fake.set(|it| it.is_busy = true);
    let output = ask(&fake, &["acquire-all", "a", "b"]);
    assert_code(&output, 1);
    let refused = "not granted a, b: the wait timed out, the holder's lease ends in 12s\n";
    assert_eq!(stdout(&output), refused);
    let (code, refused) = json(&["try-acquire-all", "a", "b"]);
    assert_eq!((code, &refused["busyName"]), (1, &"a".into()));
}

#[test]
fn failures_have_one_line_and_their_exit_code() {
    let mut fake = fake();
    for (arguments, code, message) in [
        (
            &["release", "orders", "--owner", "1"][..],
            1,
            "lockkeeper: NOT_OWNER: no\n",
        ),
        (
            &["release", "orders", "--owner", "unknown"],
            75,
            "lockkeeper: OUTCOME_UNKNOWN: no\n",
        ),
        (
            &["release", "orders", "--owner", "writer", "--mode", "write"],
            64,
            "lockkeeper: WRONG_KIND: no; `lockkeeper list --prefix NAME` shows its kind; \
             `run --permits NUMBER` is for semaphores\n",
        ),
        (&["describe", ""], 64, "lockkeeper: INVALID_NAME: no\n"),
    ] {
        let output = ask(&fake, arguments);
        assert_code(&output, code);
        assert_eq!(stderr(&output), message);
        assert_eq!(stdout(&output), "");
    }
    fake.crash();
    while !fake.keeps_address() {
        fake = self::fake();
        fake.crash();
    }
    for arguments in [
        &["describe", "orders"][..],
        &["run", "orders", "--", "true"],
    ] {
        let output = ask(&fake, arguments);
        assert_code(&output, 69);
        assert_eq!(stderr(&output).lines().count(), 1, "{output:?}");
        assert!(
            stderr(&output).contains("no coordinator at http://127.0.0.1:"),
            "{output:?}"
        );
    }
}

#[test]
fn wrong_usage_has_its_exit_code() {
    for arguments in [
        &[][..],
        &["run", "orders"],
        &["run", "orders", "-n", "-w", "1s", "--", "true"],
        &["acquire", "orders", "--wait", "soon"],
        &["acquire", "orders", "--mode", "shared"],
        &["acquire-all"],
        &["run", "pool", "--permits", "1", "--read", "a", "--", "true"],
        &["semaphore"],
        &["semaphore", "renew", "pool", "--owner", "o"],
        &["latch", "set", "start"],
        &["describe", "orders", "--server", "redis://example.com"],
        &["describe", "orders", "--key-file", "key.pem"],
        &["serve", "--set", "nothing"],
    ] {
        let output = lockkeeper(arguments).output().unwrap();
        assert_code(&output, 64);
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
}

#[test]
fn serve_prints_its_settings_and_refuses_what_is_wrong() {
    let output = lockkeeper(&[
        "serve",
        "--print-config",
        "--listen",
        "127.0.0.1:1",
        "--set",
        "session.lease=9s",
    ])
    .env("LOCKKEEPER__SERVER__LISTEN", "127.0.0.1:2")
    .env(
        "LOCKKEEPER__SESSION__SECRET",
        "a secret of some length, which is 32 and more",
    )
    .output()
    .unwrap();
    assert_code(&output, 0);
    assert!(!stdout(&output).contains("of some length"), "{output:?}");
    let printed: toml::Table = stdout(&output).parse().unwrap();
    assert_eq!(printed["server"]["listen"].as_str(), Some("127.0.0.1:1"));
    assert_eq!(printed["session"]["lease"].as_str(), Some("9s"));
    assert_eq!(printed["session"]["secret"].as_str(), Some("REDACTED"));
    let output = lockkeeper(&["serve", "--store", "http://x"])
        .env("LOCKKEEPER__SERVER__LISTN", "x")
        .output()
        .unwrap();
    assert_code(&output, 78);
    assert_eq!(
        stderr(&output),
        "lockkeeper: unknown key server.listn (environment variable LOCKKEEPER__SERVER__LISTN); \
         did you mean server.listen?\n"
    );
}
