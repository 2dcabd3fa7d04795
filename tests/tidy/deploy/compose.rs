//! `docker-compose.yml`: what its services name is there, nothing is published beyond this machine,
//! and the coordinators take their settings.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    compose_types::{Compose, Condition, Networks, Restart, Service},
    expect_problem, is_pinned, settings_of, text,
};
use crate::{expect_none, source::exists};

/// What can be started, and how many redis-servers and sentinels that takes.
const PROFILES: [(&str, usize, usize); 3] =
    [("single", 1, 0), ("sentinel", 3, 3), ("cluster", 6, 0)];

/// What looks at the coordinators of the others.
const OBSERVABILITY: &str = "observability";

#[test]
fn the_compose_file_holds_together() {
    expect_none(&problems(&compose()));
}

#[test]
fn every_profile_has_its_servers_and_a_coordinator_in_front() {
    let compose = compose();
    for (profile, servers, sentinels) in PROFILES {
        let of_profile = || {
            let services = compose.services.iter();
            services.filter(|(_, service)| service.profiles == [profile])
        };
        let running = |program: &str| {
            let is_running = |service: &Service| {
                let command = service.command.join(" ");
                command.contains(&format!("{program} /"))
            };
            of_profile()
                .filter(|(_, service)| is_running(service))
                .count()
        };
        assert_eq!(running("redis-server"), servers, "{profile}");
        assert_eq!(running("redis-sentinel"), sentinels, "{profile}");
        let coordinators = of_profile().filter(|(_, service)| service.build.is_some());
        assert_eq!(coordinators.count(), 1, "{profile}");
    }
}

#[test]
fn the_coordinators_take_their_settings_and_name_servers_that_are_there() {
    let compose = compose();
    let mut problems = Vec::new();
    for (name, service) in &compose.services {
        if service.build.is_none() {
            continue;
        }
        let environment = substituted(&service.environment);
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
        let hosts = url.split_once("://").unwrap().1.split('/').next().unwrap();
        for host in hosts.split(',').map(|it| it.split(':').next().unwrap()) {
            if host_of(&compose, host, &service.networks).is_none() {
                problems.push(format!("{name}: nobody is {host} in its network"));
            }
        }
    }
    expect_none(&problems);
}

#[test]
fn the_sentinels_and_the_cluster_know_the_addresses_of_the_servers() {
    let compose = compose();
    let address = |name: &str| compose.services[name].networks.address().unwrap();
    let monitor = format!(
        "sentinel monitor locks {} 6379 2",
        address("sentinel-redis-1")
    );
    assert!(text("deploy/redis/sentinel.conf").contains(&monitor));
    let create = compose.services["cluster-create"].command.join(" ");
    for number in 1..=6 {
        let node = format!(" {}:6379", address(&format!("cluster-{number}")));
        assert!(create.contains(&node), "{node}");
    }
    let replica = compose.services["sentinel-redis-3"].command.join(" ");
    assert!(replica.contains(&format!("replicaof {} 6379", address("sentinel-redis-1"))));
}

fn compose() -> Compose {
    serde_saphyr::from_str(&text("docker-compose.yml")).unwrap()
}

/// The environment as compose would pass it, with none of the variables set that it looks at.
fn substituted(environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let values = environment.iter().map(|(name, value)| {
        let value = match value.strip_prefix("${").and_then(|it| it.split_once(":-")) {
            Some((_, default)) => default.trim_end_matches('}'),
            None => value,
        };
        (name.clone(), value.to_owned())
    });
    values.collect()
}

/// The service that answers to a name or an address in a network.
fn host_of<'a>(compose: &'a Compose, host: &str, networks: &Networks) -> Option<&'a String> {
    let mut services = compose.services.iter();
    let found = services.find(|(name, service)| {
        let address = service.networks.address().map(|it| it.to_string());
        let shares = service.networks.names() == networks.names();
        shares && (*name == host || address.as_deref() == Some(host))
    });
    found.map(|(name, _)| name)
}

fn problems(compose: &Compose) -> Vec<String> {
    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    for (name, service) in &compose.services {
        let mut say = |what: String| problems.push(format!("{name}: {what}"));
        of_process(service, &mut say);
        of_dependencies(compose, service, &mut say);
        for network in service.networks.names() {
            let Some(network) = compose.networks.get(network) else {
                say(format!("there is no network {network}"));
                continue;
            };
            if let Some(address) = service.networks.address() {
                let subnets = network.ipam.iter().flat_map(|ipam| &ipam.config);
                let mut prefixes =
                    subnets.filter_map(|it| it.subnet.strip_suffix(".0/24").map(str::to_owned));
                let address = address.to_string();
                if !prefixes.any(|prefix| address.starts_with(&format!("{prefix}."))) {
                    say(format!("{address} is not in its network"));
                }
                if !addresses.insert(address.clone()) {
                    say(format!("{address} is taken"));
                }
            }
        }
        for volume in &service.volumes {
            used.extend(of_volume(compose, service, volume, &mut say));
        }
    }
    let unused = compose.volumes.keys().filter(|name| !used.contains(*name));
    problems.extend(unused.map(|name| format!("volume {name} is not used")));
    problems
}

fn of_process(service: &Service, say: &mut dyn FnMut(String)) {
    if !is_pinned(&service.image) {
        say(format!("{} may change", service.image));
    }
    if let Some(build) = &service.build
        && !exists(&format!("{}/{}", build.context, build.dockerfile))
    {
        say(format!("there is no {}", build.dockerfile));
    }
    let mut of_ours = PROFILES.iter().map(|(name, ..)| *name);
    let is_ours = |profile: &str| profile == OBSERVABILITY || of_ours.any(|name| name == profile);
    if service.profiles.len() != 1 || !service.profiles.iter().map(String::as_str).all(is_ours) {
        say(format!("profiles {:?}", service.profiles));
    }
    for port in &service.ports {
        if !port.starts_with("127.0.0.1:") {
            say(format!("port {port} is open to others"));
        }
    }
    // The coordinator's image has a user; Redis's starts as root if it may.
    if service.user.is_none() && !(service.build.is_some() && service.read_only) {
        say("runs as root".to_owned());
    }
    if service.cap_drop != ["ALL"] || service.security_opt != ["no-new-privileges:true"] {
        say("has privileges".to_owned());
    }
    let is_one_shot = service.restart == Restart::OnFailure;
    match &service.healthcheck {
        Some(check) => {
            let program = check.test.first().map(String::as_str);
            if program != Some("CMD") || check.interval.is_empty() || check.timeout.is_empty() {
                say(format!("health check {check:?}"));
            }
        }
        None if !is_one_shot => say("has no health check".to_owned()),
        None => {}
    }
}

fn of_dependencies(compose: &Compose, service: &Service, say: &mut dyn FnMut(String)) {
    for (name, dependency) in &service.depends_on {
        let Some(target) = compose.services.get(name) else {
            say(format!("waits for {name}, which does not exist"));
            continue;
        };
        if target.profiles != service.profiles {
            say(format!("waits for {name}, which another profile starts"));
        }
        let can_come = match dependency.condition {
            Condition::ServiceHealthy => target.healthcheck.is_some(),
            Condition::ServiceCompletedSuccessfully => target.restart == Restart::OnFailure,
        };
        if !can_come {
            say(format!("waits for {name} in vain"));
        }
    }
}

/// The named volume, if it is one.
fn of_volume(
    compose: &Compose,
    service: &Service,
    volume: &str,
    say: &mut dyn FnMut(String),
) -> Option<String> {
    let parts: Vec<_> = volume.split(':').collect();
    let Some(path) = parts[0].strip_prefix("./") else {
        if !compose.volumes.contains_key(parts[0]) {
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
    let command = service.command.join(" ");
    let is_named = service.environment.values().any(|it| it == parts[1]);
    if !command.contains(parts[1]) && !is_named {
        say(format!("does not use {}", parts[1]));
    }
    None
}

type Breakage = fn(&mut Service);

#[test]
fn broken_services_are_found() {
    let good = compose();
    let broken = |name: &str, breakage: Breakage| {
        let mut compose = good.clone();
        breakage(compose.services.get_mut(name).unwrap());
        problems(&compose)
    };
    let cases: [(&str, Breakage, &str); 11] = [
        (
            "redis",
            |it| it.image = "redis:latest".to_owned(),
            "may change",
        ),
        ("redis", |it| it.healthcheck = None, "in vain"),
        ("redis", |it| it.user = None, "runs as root"),
        ("redis", |it| it.cap_drop.clear(), "privileges"),
        (
            "redis",
            |it| it.volumes[0] = "./deploy/no.conf:/a:ro".to_owned(),
            "does not exist",
        ),
        (
            "redis",
            |it| it.volumes[1] = "no:/data".to_owned(),
            "there is no volume no",
        ),
        ("redis", |it| it.volumes.truncate(1), "is not used"),
        (
            "redis",
            |it| it.profiles.push("cluster".to_owned()),
            "profiles",
        ),
        (
            "coordinator",
            |it| it.ports[0] = "7625:7625".to_owned(),
            "open to others",
        ),
        ("coordinator", |it| it.read_only = false, "runs as root"),
        (
            "coordinator",
            |it| it.networks = Networks::Plain(vec!["no".to_owned()]),
            "no network",
        ),
    ];
    for (name, breakage, said) in cases {
        expect_problem(&broken(name, breakage), said);
    }
}

#[test]
fn broken_dependencies_and_addresses_are_found() {
    let good = text("docker-compose.yml");
    let broken = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        problems(&serde_saphyr::from_str(&good.replace(from, to)).unwrap())
    };
    expect_problem(
        &broken("\n  cluster-create:", "\n  create:"),
        "does not exist",
    );
    expect_problem(
        &broken("ipv4_address: 172.30.70.12", "ipv4_address: 172.30.70.11"),
        "is taken",
    );
    expect_problem(
        &broken("ipv4_address: 172.30.70.12", "ipv4_address: 172.30.71.99"),
        "not in its",
    );
    let unknown = good.replace("    read_only: true", "    readonly: true");
    let unknown = unknown.replace("  read_only: true", "  readonly: true");
    assert!(serde_saphyr::from_str::<Compose>(&unknown).is_err());
}
