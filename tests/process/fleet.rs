//! The consoles of several coordinators: each shows what all of them know.

use std::path::PathBuf;

use lockkeeper_api::pb::OpenSession;
use serde_json::{Value, json};

use crate::prelude::*;
use crate::{cluster::Cluster, security::Authority, telemetry::http::get};

/// A page of the console, as JSON.
async fn page(coordinator: &Coordinator, path: &str) -> Value {
    let address = coordinator.admin_address().await;
    let path = format!("/api/v1/{path}");
    let request = get(address, &path, "application/json").await;
    serde_json::from_str(&request.1).unwrap_or_else(|error| panic!("{error}: {request:?}"))
}

fn list<'a>(page: &'a Value, field: &str) -> &'a [Value] {
    page[field].as_array().unwrap()
}

fn fleet_on(store: &str) -> Settings {
    settings_on(store)
        .with("store.call_timeout", "2s")
        .with("fleet.address", "127.0.0.1")
        .with("admin.listen", "127.0.0.1:0")
        .with("admin.allow_force_release", "true")
}

async fn two_with(settings: &Settings) -> [Coordinator; 2] {
    let (a, b) = tokio::join!(Coordinator::start(settings), Coordinator::start(settings));
    eventually("they know each other", || async {
        list(&page(&a, "overview").await, "coordinators").len() == 2
    })
    .await;
    [a, b]
}

async fn two_that_know_each_other() -> (RedisServer, Coordinator, Coordinator) {
    let redis = RedisServer::start().await;
    let [a, b] = two_with(&fleet_on(&redis.url())).await;
    (redis, a, b)
}

#[tokio::test]
async fn coordinators_on_a_cluster_and_behind_sentinels_know_each_other() {
    let (cluster, sentinels) = tokio::join!(Cluster::start_without_replicas(), Sentinels::start());
    for store in [cluster.url(), sentinels.url()] {
        let [a, b] = two_with(&fleet_on(&store)).await;
        let mut holder = a.client().await.open().await;
        holder.acquire("build").await;
        let mut waiter = b.client().await.open().await;
        waiter.wait_in("build", LockMode::Exclusive).await;
        let lock = page(&a, "lock?name=build").await;
        assert_eq!(lock["waiterCount"], 1, "{store}: {lock}");
    }
}

#[tokio::test]
async fn coordinators_with_tls_ask_each_other_and_name_those_whose_certificate_they_do_not_trust() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let redis = RedisServer::start().await;
    let settings = |trusted: &Authority| {
        let ca = trusted.ca_file().display().to_string();
        authority
            .secured(fleet_on(&redis.url()))
            .with("fleet.ca_file", &ca)
            .with("fleet.server_name", "localhost")
    };
    let [a, b] = two_with(&settings(&authority)).await;
    let overview = page(&a, "overview").await;
    let other = format!("https://{}", b.address());
    assert_eq!(list(&overview, "coordinators")[1]["coordinator"], other);

    let wary = Coordinator::start(&settings(&stranger)).await;
    eventually("it names both", || async {
        list(&page(&wary, "overview").await, "unasked").len() == 2
    })
    .await;
}

#[tokio::test]
async fn behind_client_certificates_coordinators_ask_with_their_own_and_the_caller_s_token() {
    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    let authority = Authority::new();
    let redis = RedisServer::start().await;
    let path = |path: PathBuf| path.display().to_string();
    let ca = path(authority.ca_file());
    let rule = |who| {
        format!("[[access.rules]]\nidentity = \"{who}\"\nprefix = \"\"\nallow = [\"admin\"]\n")
    };
    // The coordinators' own identity is allowed everything, too: it must not count.
    let [peer, ops] = ["spiffe://prod/lockkeeper", "spiffe://prod/ops"];
    let rules = [rule(peer), rule(ops), rule("operator")].concat();
    let rules = authority.file("rules.toml", &rules);
    let tokens = path(authority.file("tokens", &format!("operator {TOKEN}\n")));
    let token = path(authority.file("token", TOKEN));
    let [certificate, key] = authority.client_files(peer);
    let settings = authority
        .secured(fleet_on(&redis.url()))
        .with("server.tls.client_ca_file", &ca)
        .with("auth.token_file", &tokens)
        .with("store.key_prefix", "app:")
        .with("fleet.ca_file", &ca)
        .with("fleet.server_name", "localhost")
        .with_file(&rules);
    let with_certificate = |settings: Settings| {
        let settings = settings.with("fleet.certificate_file", &certificate);
        settings.with("fleet.key_file", &key)
    };
    let known = with_certificate(settings.clone());
    let (a, b) = tokio::join!(Coordinator::start(&known), Coordinator::start(&known));
    let [certificate, key] = authority.client_files(ops);
    let asked = async |coordinator: &Coordinator, credentials: &[&str]| {
        let server = format!("https://localhost:{}", coordinator.address().port());
        let words = ["coordinators", "--server", &server, "--ca-file", &ca];
        let words = [&words, credentials].concat();
        let output = lockkeeper(coordinator, &words).output().await.unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let certificate = ["--certificate-file", &certificate, "--key-file", &key];
    let both = [&certificate[..], &["--token-file", &token]].concat();
    eventually("each asks the other", || async {
        let [listed, said] = asked(&a, &both).await;
        listed.lines().count() == 2 && said.is_empty()
    })
    .await;
    // Who is known by a certificate only is known nowhere else.
    let [listed, said] = asked(&b, &certificate).await;
    assert_eq!(listed.lines().count(), 1, "{listed}");
    let why = "the caller's certificate or socket counts only here";
    assert!(
        said.contains("could not ask") && said.contains(why),
        "{said}"
    );
    // Without a certificate of its own a coordinator is not let in.
    let bare = Coordinator::start(&settings).await;
    eventually("it cannot ask", || async {
        let [_, said] = asked(&bare, &both).await;
        said.lines()
            .filter(|line| line.contains("it cannot be reached"))
            .count()
            == 2
    })
    .await;
}

#[tokio::test]
async fn each_page_shows_what_another_coordinator_knows_and_names_one_that_is_gone() {
    let (_redis, a, b) = two_that_know_each_other().await;
    let open = OpenSession::default().called("a.sh");
    let mut holder = a.client().await.open_with(open).await.unwrap();
    holder.acquire("build").await;
    let mut waiter = b.client().await.open().await;
    waiter.wait_in("build", LockMode::Exclusive).await;

    let lock = page(&a, "lock?name=build").await;
    assert_eq!(lock["waiterCount"], 1, "{lock}");
    let digest = list(&lock, "waiters")[0]["sessionDigest"].as_str().unwrap();
    let elsewhere = page(&b, "lock?name=build").await;
    assert!(
        list(&elsewhere, "holders")[0]["heldForMs"].is_number(),
        "{elsewhere}"
    );
    for coordinator in [&a, &b] {
        let locks = page(coordinator, "locks").await;
        let [lock] = list(&locks, "locks") else {
            panic!("{locks}")
        };
        assert_eq!(lock["waiterCount"], 1, "{locks}");
        let [holder] = list(lock, "holders") else {
            panic!("{locks}")
        };
        assert!(holder["heldForMs"].is_number(), "{locks}");
        assert_eq!(holder["clientName"], "a.sh", "{locks}");
    }

    let session = page(&a, &format!("session?digest={digest}")).await;
    assert_eq!(list(&session, "waits")[0]["name"], "build", "{session}");
    assert_eq!(session["coordinator"], b.url().as_str());

    let events = page(&a, "history?name=build").await;
    let seen = list(&events, "events").iter();
    let seen: Vec<_> = seen.map(|it| (&it["event"], &it["coordinator"])).collect();
    let expected = [("waitBegan", b.url()), ("granted", a.url())];
    let expected = expected.map(|(event, at)| (Value::from(event), Value::from(at)));
    assert_eq!(seen, expected.each_ref().map(|(event, at)| (event, at)));

    eventually("the graph has the wait", || async {
        let graph = page(&a, "graph").await;
        list(&graph, "names")
            .first()
            .is_some_and(|it| it["waiterCount"] == 1)
    })
    .await;

    b.kill();
    for path in ["lock?name=build", "locks", "graph", "history?name=build"] {
        let page = page(&a, path).await;
        let [missing] = list(&page, "unasked") else {
            panic!("{path}: {page}")
        };
        assert_eq!(missing["coordinator"], b.url().as_str(), "{path}");
    }
    let session = page(&a, &format!("session?digest={digest}")).await;
    assert!(session["sessionDigest"].is_null(), "{session}");
    assert_eq!(list(&session, "unasked").len(), 1);
}

#[tokio::test]
async fn the_lists_of_all_coordinators_go_on_page_by_page() {
    let (_redis, a, b) = two_that_know_each_other().await;
    let mut sessions = Vec::new();
    for (number, coordinator) in [&a, &a, &b, &b].into_iter().enumerate() {
        let mut session = coordinator.client().await.open().await;
        session.acquire(&format!("build-{number}")).await;
        sessions.push(session);
    }
    for (path, id) in [("locks", "name"), ("sessions", "sessionDigest")] {
        let (mut token, mut seen) = (String::new(), Vec::new());
        loop {
            let page = page(&a, &format!("{path}?pageSize=1&pageToken={token}")).await;
            seen.extend(list(&page, path).iter().map(|it| it[id].to_string()));
            assert!(seen.len() <= sessions.len(), "{path}: {seen:?}");
            match page["nextPageToken"].as_str() {
                Some(next) => next.clone_into(&mut token),
                None => break,
            }
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), sessions.len(), "{path}: {seen:?}");
    }
}

#[tokio::test]
async fn a_page_that_consoles_repeat_is_audited_once_at_each_coordinator() {
    let (_redis, a, b) = two_that_know_each_other().await;
    for _ in 0..3 {
        assert_eq!(list(&page(&a, "graph").await, "unasked").len(), 0);
    }
    for coordinator in [&a, &b] {
        let audited = || coordinator.log().matches("\"Graph\"").count();
        eventually("the page is audited", || async { audited() > 0 }).await;
        assert_eq!(audited(), 1);
    }
}

#[tokio::test]
async fn the_overview_is_that_of_all_coordinators_or_of_one_of_them() {
    let (_redis, a, b) = two_that_know_each_other().await;
    let mut holder = a.client().await.open().await;
    holder.acquire("build").await;
    let mut waiter = b.client().await.open().await;
    waiter.wait_in("build", LockMode::Exclusive).await;
    let most = |charts: &Value| {
        let waiters = list(&list(charts, "history")[0], "waiters").iter();
        waiters.filter_map(Value::as_f64).fold(0.0, f64::max)
    };
    eventually("the charts have the wait of the other one", || async {
        let overview = page(&a, "overview").await;
        assert_eq!(most(&overview).to_string(), "0", "its own have none");
        most(&overview["fleet"]) > 0.0
    })
    .await;
    let overview = page(&a, "overview").await;
    let most_waited = &list(&overview["fleet"], "mostWaitedFor")[0];
    assert_eq!(
        (&most_waited["name"], &most_waited["waiterCount"]),
        (&"build".into(), &1.into())
    );
    assert_eq!(list(&overview, "mostWaitedFor"), &[] as &[Value]);
    assert!(overview["fleet"]["coordinator"].is_null());
    for one in [&a, &b] {
        let overview = page(&a, &format!("overview?coordinator={}", one.url())).await;
        assert_eq!(overview["fleet"]["coordinator"], one.url().as_str());
        assert_eq!(most(&overview["fleet"]) > 0.0, one.url() == b.url());
    }
}

#[tokio::test]
async fn events_since_a_cursor_and_as_they_happen_are_those_of_all_coordinators() {
    let (_redis, a, b) = two_that_know_each_other().await;
    let before = page(&a, "history?limit=1").await;
    let address = a.admin_address().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let asked = "GET /api/v1/events?fleet=true HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut events = BufReader::new(stream).lines();
    let mut next = async |what: &str| loop {
        let line = events.next_line().await.unwrap().unwrap();
        if line.contains(what) {
            break line;
        }
    };
    for coordinator in [&a, &b] {
        let snapshot = next(&format!("\"{}\"", coordinator.url())).await;
        assert!(snapshot.contains("\"entries\":[]"), "{snapshot}");
    }
    let mut session = b.client().await.open().await;
    session.acquire("build").await;
    let told = next("\"build\"").await;
    let told: Value = serde_json::from_str(told.strip_prefix("data: ").unwrap()).unwrap();
    let since = async |page_before: &Value| {
        let cursor = page_before["cursor"].as_str().unwrap();
        page(&a, &format!("history?since={cursor}")).await
    };
    let after = since(&before).await;
    let [kept] = list(&after, "events") else {
        panic!("{after}")
    };
    // The same event, but for its place in the history.
    let mut kept = kept.clone();
    kept.as_object_mut()
        .unwrap()
        .retain(|key, _| !["at", "number"].contains(&key.as_str()));
    assert_eq!(told, kept);
    assert_eq!(kept["coordinator"], b.url().as_str());
    assert_eq!(list(&since(&after).await, "events"), &[] as &[Value]);
}

#[tokio::test]
async fn a_deadlock_is_on_the_pages_of_a_coordinator_that_has_none_of_its_waits() {
    let (_redis, a, b) = two_that_know_each_other().await;
    for (name, owner) in [("red", "x"), ("blue", "y")] {
        let words = ["acquire", name, "--owner", owner, "--lease", "5m"];
        let held = lockkeeper(&b, &words).output().await.unwrap();
        assert!(held.status.success(), "{held:?}");
    }
    let waits = [("blue", "x"), ("red", "y")].map(|(name, owner)| {
        let words = ["acquire", name, "--owner", owner, "--wait", "5m"];
        lockkeeper(&b, &words).spawn().unwrap()
    });
    eventually("the graph has the deadlock", || async {
        let graph = page(&a, "graph").await;
        list(&graph, "deadlocks").len() == 1
            && list(&graph, "names").len() == 2
            && list(&graph, "names")
                .iter()
                .all(|it| it["isDeadlocked"] == true)
    })
    .await;
    let overview = page(&a, "overview").await;
    assert_eq!(list(&overview, "banners"), &[] as &[Value]);
    let expected = json!([{
        "kind": "deadlock",
        "text": "Deadlock: the holders of blue, red wait for each other.",
        "coordinators": [b.url()],
    }]);
    assert_eq!(overview["fleet"]["banners"], expected);
    for mut wait in waits {
        wait.kill().await.unwrap();
    }
}

#[tokio::test]
async fn sessions_end_at_all_coordinators_and_one_that_cannot_be_asked_is_named() {
    let (_redis, a, b) = two_that_know_each_other().await;
    let mut session = b.client().await.open().await;
    session.acquire("build").await;
    let listed = page(&a, "sessions").await;
    let digest = list(&listed, "sessions")[0]["sessionDigest"]
        .as_str()
        .unwrap();
    let end = async |words: &[&str]| {
        let words = [&["end-session", "--reason", "test", "--yes"], words].concat();
        let output = lockkeeper(&a, &words).output().await.unwrap();
        let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), texts.concat())
    };
    let (code, said) = end(&["--digest", digest, "--this-coordinator"]).await;
    assert!(code != Some(0) && said.contains("session"), "{said}");
    let (code, said) = end(&["--digest", digest]).await;
    assert_eq!((code, said.trim()), (Some(0), "ended sessions=1 grants=1"));
    // As of a retry, whose first answer was lost.
    let (code, said) = end(&["--digest", digest]).await;
    assert!(code == Some(1) && !said.contains("ended"), "{said}");
    for sessions in ["--digest", "--identity"] {
        let (code, said) = end(&[sessions, ""]).await;
        assert!(code == Some(64) && said.contains(sessions), "{said}");
    }

    b.kill();
    let (code, said) = end(&["--identity", "anonymous"]).await;
    assert_eq!(code, Some(75), "{said}");
    let missing = format!("could not ask {}: it cannot be reached", b.url());
    assert!(said.contains(&missing), "{said}");
}
