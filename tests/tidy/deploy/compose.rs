//! `docker-compose.yml`: what its services name is there, nothing is published beyond this machine,
//! and the coordinators take their settings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{expect_problem, is_pinned, items, settings_of, strings, text};
use crate::{expect_none, source::exists};

/// What can be started, and how many redis-servers and sentinels that takes.
const PROFILES: [(&str, usize, usize); 3] =
    [("single", 1, 0), ("sentinel", 3, 3), ("cluster", 6, 0)];

/// What the variable of the servers' password would be.
const PASSWORD: &str = "0123456789abcdef";

/// What looks at the coordinators of the others.
const OBSERVABILITY: &str = "observability";

/// What our services set; anything else is misspelt.
const KEYS: [&str; 17] = [
    "build",
    "cap_drop",
    "command",
    "depends_on",
    "environment",
    "healthcheck",
    "image",
    "networks",
    "ports",
    "profiles",
    "read_only",
    "restart",
    "security_opt",
    "stop_grace_period",
    "tmpfs",
    "user",
    "volumes",
];

#[test]
fn the_compose_file_holds_together() {
    expect_none(&problems(&compose()));
}

#[test]
fn every_profile_has_its_servers_and_a_coordinator_in_front() {
    let compose = compose();
    for (profile, servers, sentinels) in PROFILES {
        let count = |is_it: &dyn Fn(&Value) -> bool| {
            let services = services(&compose).map(|(_, service)| service);
            let services = services.filter(|it| strings(&it["profiles"]) == [profile]);
            services.filter(|it| is_it(it)).count()
        };
        let running = |program| count(&|it| command(it).contains(&format!("{program} /")));
        assert_eq!(running("redis-server"), servers, "{profile}");
        assert_eq!(running("redis-sentinel"), sentinels, "{profile}");
        assert_eq!(count(&is_ours), 1, "{profile}");
    }
}

#[test]
fn the_coordinators_take_their_settings_and_name_servers_that_are_there() {
    let compose = compose();
    let mut problems = Vec::new();
    for (name, service) in services(&compose).filter(|(_, service)| is_ours(service)) {
        let environment = substituted(&service["environment"]);
        match settings_of(&["serve".to_owned()], &environment) {
            Ok(settings) => {
                let listen = settings["server"]["listen"].as_str();
                assert_eq!(listen, Some("0.0.0.0:7625"), "{name}");
                let admin = settings["admin"]["listen"].as_str();
                assert_eq!(admin, Some("0.0.0.0:7626"), "{name} is scraped there");
            }
            Err(refused) => problems.push(format!("{name}: {refused}")),
        }
        let url = &environment["LOCKKEEPER__STORE__URL"];
        let authority = url.split_once("://").unwrap().1.split('/').next().unwrap();
        let (password, hosts) = authority.split_once('@').unwrap();
        assert_eq!(password.strip_prefix(':'), Some(PASSWORD), "{name}");
        for host in hosts.split(',').map(|it| it.split(':').next().unwrap()) {
            let is_it = |(name, other): (&String, &Value)| {
                let shares = strings(&other["networks"]) == strings(&service["networks"]);
                shares && (name == host || address(other) == Some(host))
            };
            if !services(&compose).any(is_it) {
                problems.push(format!("{name}: its network has no {host}"));
            }
        }
    }
    expect_none(&problems);
}

#[test]
fn every_server_has_a_password() {
    let compose = compose();
    for (name, service) in services(&compose) {
        let command = command(service);
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

#[test]
fn the_sentinels_and_the_cluster_know_the_addresses_of_the_servers() {
    let compose = compose();
    let address = |name: &str| address(&compose["services"][name]).unwrap();
    let command = |name: &str| command(&compose["services"][name]);
    let master = address("sentinel-redis-1");
    let monitor = format!("sentinel monitor locks {master} 6379 2");
    assert!(text("deploy/redis/sentinel.conf").contains(&monitor));
    for number in 1..=6 {
        let node = format!(" {}:6379", address(&format!("cluster-{number}")));
        assert!(command("cluster-create").contains(&node), "{node}");
    }
    assert!(command("sentinel-redis-3").contains(&format!("replicaof {master} 6379")));
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

fn command(service: &Value) -> String {
    strings(&service["command"]).join(" ")
}

fn address(service: &Value) -> Option<&str> {
    let network = service["networks"].as_object()?.values().next()?;
    network["ipv4_address"].as_str()
}

/// The environment as compose would pass it, with only those variables set that have to be.
fn substituted(environment: &Value) -> BTreeMap<String, String> {
    let values = environment
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| {
            let value = value.as_str().unwrap();
            let mut parts = value.split("${");
            let mut text = parts.next().unwrap().to_owned();
            for (variable, rest) in parts.map(|part| part.split_once('}').unwrap()) {
                let default = variable.split_once(":-").map(|(_, default)| default);
                text = [&text, default.unwrap_or(PASSWORD), rest].concat();
            }
            (name.clone(), text)
        });
    values.collect()
}

fn problems(compose: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    for (name, service) in services(compose) {
        let mut say = |what: String| problems.push(format!("{name}: {what}"));
        of_process(service, &mut say);
        of_dependencies(compose, service, &mut say);
        for network in strings(&service["networks"]) {
            let Some(network) = compose["networks"].get(network) else {
                say(format!("there is no network {network}"));
                continue;
            };
            let Some(address) = address(service) else {
                continue;
            };
            let mut subnets =
                items(&network["ipam"]["config"]).filter_map(|it| it["subnet"].as_str());
            let prefix = |subnet: &str| subnet.strip_suffix("0/24").map(str::to_owned);
            if !subnets.any(|it| prefix(it).is_some_and(|it| address.starts_with(&it))) {
                say(format!("{address} is not in its network"));
            }
            if !addresses.insert(address) {
                say(format!("{address} is taken"));
            }
        }
        for volume in strings(&service["volumes"]) {
            used.extend(of_volume(compose, service, volume, &mut say));
        }
    }
    let volumes = strings(&compose["volumes"]).into_iter();
    let unused = volumes.filter(|name| !used.contains(*name));
    problems.extend(unused.map(|name| format!("volume {name} is not used")));
    problems
}

fn of_process(service: &Value, say: &mut dyn FnMut(String)) {
    let misspelt = strings(service).into_iter();
    misspelt
        .filter(|key| !KEYS.contains(key))
        .for_each(|key| say(format!("has no {key}")));
    let image = service["image"].as_str().unwrap_or_default();
    if !is_pinned(image) {
        say(format!("{image} may change"));
    }
    if let (Some(context), Some(file)) = (
        service["build"]["context"].as_str(),
        service["build"]["dockerfile"].as_str(),
    ) && !exists(&format!("{context}/{file}"))
    {
        say(format!("there is no {file}"));
    }
    let profiles = strings(&service["profiles"]);
    let is_known =
        |profile| profile == OBSERVABILITY || PROFILES.iter().any(|(name, ..)| *name == profile);
    if profiles.len() != 1 || !is_known(profiles[0]) {
        say(format!("profiles {profiles:?}"));
    }
    for port in strings(&service["ports"]) {
        if !port.starts_with("127.0.0.1:") {
            say(format!("port {port} is open to others"));
        }
    }
    // The coordinator's image has a user; Redis's starts as root if it may.
    if service["user"].is_null() && !(is_ours(service) && service["read_only"] == true) {
        say("runs as root".to_owned());
    }
    if strings(&service["cap_drop"]) != ["ALL"]
        || strings(&service["security_opt"]) != ["no-new-privileges:true"]
    {
        say("has privileges".to_owned());
    }
    let check = &service["healthcheck"];
    if check.is_null() {
        if service["restart"] != "on-failure" {
            say("has no health check".to_owned());
        }
    } else if check["test"][0] != "CMD" || !check["interval"].is_string() {
        say(format!("health check {check}"));
    }
}

fn of_dependencies(compose: &Value, service: &Value, say: &mut dyn FnMut(String)) {
    for name in strings(&service["depends_on"]) {
        let Some(target) = compose["services"].get(name) else {
            say(format!("waits for {name}, which does not exist"));
            continue;
        };
        if target["profiles"] != service["profiles"] {
            say(format!("waits for {name}, which another profile starts"));
        }
        let can_come = match service["depends_on"][name]["condition"].as_str() {
            Some("service_healthy") => !target["healthcheck"].is_null(),
            Some("service_completed_successfully") => target["restart"] == "on-failure",
            _ => false,
        };
        if !can_come {
            say(format!("waits for {name} in vain"));
        }
    }
}

/// The named volume, if it is one.
fn of_volume(
    compose: &Value,
    service: &Value,
    volume: &str,
    say: &mut dyn FnMut(String),
) -> Option<String> {
    let parts: Vec<_> = volume.split(':').collect();
    let Some(path) = parts[0].strip_prefix("./") else {
        if compose["volumes"].get(parts[0]).is_none() {
            say(format!("there is no volume {}", parts[0]));
        }
        return Some(parts[0].to_owned());
    };
    if !exists(path) {
        say(format!("{path} does not exist"));
    }
    if parts.get(2) != Some(&"ro") {
        say(format!("may write to {path}"));
    }
    let environment = service["environment"].as_object().into_iter().flatten();
    let is_named = environment.map(|(_, value)| value).any(|it| it == parts[1]);
    if !command(service).contains(parts[1]) && !is_named {
        say(format!("does not use {}", parts[1]));
    }
    None
}

#[test]
fn broken_services_are_found() {
    let cases = [
        ("redis", json!({"image": "redis:latest"}), "may change"),
        ("redis", json!({"healthcheck": null}), "in vain"),
        ("redis", json!({"user": null}), "runs as root"),
        ("redis", json!({"cap_drop": []}), "privileges"),
        (
            "redis",
            json!({"volumes": ["./deploy/no.conf:/a:ro"]}),
            "does not exist",
        ),
        (
            "redis",
            json!({"volumes": ["no:/data"]}),
            "there is no volume no",
        ),
        ("redis", json!({"volumes": []}), "is not used"),
        (
            "redis",
            json!({"profiles": ["single", "cluster"]}),
            "profiles",
        ),
        (
            "coordinator",
            json!({"ports": ["7625:7625"]}),
            "open to others",
        ),
        ("coordinator", json!({"read_only": false}), "runs as root"),
        ("coordinator", json!({"networks": ["no"]}), "no network"),
        ("coordinator", json!({"readonly": true}), "has no readonly"),
    ];
    for (name, changes, said) in cases {
        let mut compose = compose();
        for (key, value) in changes.as_object().unwrap() {
            compose["services"][name][key] = value.clone();
        }
        expect_problem(&problems(&compose), said);
    }
}

#[test]
fn broken_dependencies_and_addresses_are_found() {
    let good = text("docker-compose.yml");
    let cases = [
        ("\n  cluster-create:", "\n  create:", "does not exist"),
        ("172.30.70.12}", "172.30.70.11}", "is taken"),
        ("172.30.70.12}", "172.30.71.99}", "not in its"),
    ];
    for (from, to, said) in cases {
        assert!(good.contains(from), "{from}");
        let broken = serde_saphyr::from_str(&good.replace(from, to)).unwrap();
        expect_problem(&problems(&broken), said);
    }
}
