//! `docker-compose.yml`: nothing is published beyond this machine, and no service has more rights
//! than it needs. `tests/containers` runs the profiles, which shows that they hold together.

use serde_json::{Value, json};

use super::{expect_problem, is_pinned, strings, text};
use crate::{expect_none, source::exists};

#[test]
fn the_services_are_closed() {
    expect_none(&problems(&compose()));
}

#[test]
fn the_coordinators_are_scraped_where_they_listen() {
    let compose = compose();
    let coordinators = services(&compose).filter(|(_, service)| is_ours(service));
    let listens = coordinators.map(|(_, it)| &it["environment"]["LOCKKEEPER__ADMIN__LISTEN"]);
    assert_eq!(listens.collect::<Vec<_>>(), ["0.0.0.0:7626"; 3]);
}

#[test]
fn every_server_has_a_password() {
    let compose = compose();
    for (name, service) in services(&compose) {
        let command = strings(&service["command"]).join(" ");
        if !command.contains("redis-server /") && !command.contains("redis-sentinel /") {
            continue;
        }
        let password = service["environment"]["REDISCLI_AUTH"].as_str();
        let is_demanded =
            password.is_some_and(|it| it.starts_with("${LOCKKEEPER_REDIS_PASSWORD:?"));
        assert!(is_demanded, "{name}: {password:?}");
        let is_sentinel = command.contains("redis-sentinel");
        let to_others = if is_sentinel {
            "auth-pass locks"
        } else {
            "--masterauth"
        };
        for option in ["--requirepass", to_others] {
            let option = format!(r#"{option} "$$REDISCLI_AUTH""#);
            assert!(command.contains(&option), "{name}: {option}");
        }
        assert!(!command.contains("--protected-mode no"), "{name}");
    }
}

fn compose() -> Value {
    serde_saphyr::from_str(&text("docker-compose.yml")).unwrap()
}

fn services(compose: &Value) -> impl Iterator<Item = (&String, &Value)> {
    compose["services"].as_object().unwrap().iter()
}

fn is_ours(service: &Value) -> bool {
    service.get("build").is_some()
}

fn problems(compose: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, service) in services(compose) {
        let mut say = |what: &str| problems.push(format!("{name}: {what}"));
        if !is_pinned(service["image"].as_str().unwrap_or_default()) {
            say("its image may change");
        }
        let mut ports = strings(&service["ports"]).into_iter();
        if ports.any(|port| !port.starts_with("127.0.0.1:")) {
            say("is open to others");
        }
        // The coordinator's image has a user; Redis's starts as root if it may.
        if service["user"].is_null() && !(is_ours(service) && service["read_only"] == true) {
            say("runs as root");
        }
        if strings(&service["cap_drop"]) != ["ALL"]
            || strings(&service["security_opt"]) != ["no-new-privileges:true"]
        {
            say("has privileges");
        }
        for volume in strings(&service["volumes"]) {
            // The others are volumes by name.
            if let Some((path, rest)) = volume.split_once(':')
                && path.starts_with("./")
            {
                if !exists(path) {
                    say("mounts what does not exist");
                }
                if !rest.ends_with(":ro") {
                    say("may write to the tree");
                }
            }
        }
    }
    problems
}

#[test]
fn open_services_are_found() {
    let cases = [
        ("redis", json!({"image": "redis:latest"}), "may change"),
        ("redis", json!({"user": null}), "runs as root"),
        ("redis", json!({"cap_drop": []}), "privileges"),
        (
            "redis",
            json!({"volumes": ["./no:/a:ro"]}),
            "does not exist",
        ),
        ("redis", json!({"volumes": ["./deploy:/a"]}), "may write"),
        ("coordinator", json!({"ports": ["7625:7625"]}), "to others"),
        ("coordinator", json!({"read_only": false}), "runs as root"),
    ];
    for (name, changes, said) in cases {
        let mut compose = compose();
        for (key, value) in changes.as_object().unwrap() {
            compose["services"][name][key] = value.clone();
        }
        expect_problem(&problems(&compose), said);
    }
}
