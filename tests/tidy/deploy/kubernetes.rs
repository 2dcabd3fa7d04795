//! `deploy/kubernetes/`: what the manifests name is there, the containers have no privilege they do
//! not need, and the binary takes what they pass.

use std::{collections::BTreeMap, fs};

use tempfile::TempDir;

use super::{
    expect_problem, is_pinned,
    kubernetes_types::{Container, Deployment, Document, NetworkPolicy, PodSpec, Probe, Secret},
    settings_of,
};
use crate::{expect_none, source::tree};

#[test]
fn the_manifests_hold_together() {
    let documents = documents();
    assert_eq!(documents.len(), 7);
    expect_none(&problems(&documents));
}

#[test]
fn the_binary_takes_what_the_containers_pass() {
    let documents = documents();
    let mut listens = Vec::new();
    for deployment in deployments(&documents) {
        let pod = &deployment.spec.template.spec;
        for container in containers(pod).filter(|it| it.image.starts_with("lockkeeper:")) {
            let files = TempDir::new().unwrap();
            let environment = environment(&documents, pod, container, &files);
            let settings = settings_of(&container.args, &environment).unwrap();
            listens.push(settings["server"]["listen"].as_str().unwrap().to_owned());
            let secret = settings["session"]["secret_file"].as_str().unwrap();
            assert!(!secret.is_empty(), "{}", container.name);
            let drain = settings["server"]["drain_grace"].as_str().unwrap();
            let drain = humantime::parse_duration(drain).unwrap().as_secs();
            assert!(pre_stop(container) + drain < pod.termination_grace_period_seconds);
            let admin = settings["admin"]["listen"].as_str().unwrap();
            let port = container.ports.iter().find(|it| it.name == "admin");
            let port = port.map(|it| format!("0.0.0.0:{}", it.container_port));
            assert_eq!(admin, port.unwrap_or_default(), "{}", container.name);
        }
    }
    // The service's coordinators serve other pods, the sidecar its own.
    assert_eq!(listens, ["0.0.0.0:7625", "127.0.0.1:7625"]);
}

#[test]
fn the_sidecar_is_one_that_is_started_first_and_stopped_last() {
    let documents = documents();
    let sidecars = deployments(&documents).flat_map(|it| &it.spec.template.spec.init_containers);
    let policies: Vec<_> = sidecars.map(|it| it.restart_policy.as_deref()).collect();
    assert_eq!(policies, [Some("Always")]);
}

/// Seconds between the wish to stop it and the signal.
fn pre_stop(container: &Container) -> u64 {
    let Some(lifecycle) = &container.lifecycle else {
        return 0;
    };
    match lifecycle.pre_stop.exec.command.as_slice() {
        [sleep, seconds] if sleep == "sleep" => seconds.parse().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn documents() -> Vec<Document> {
    let files = tree().into_iter();
    let files = files.filter(|file| file.path.starts_with("deploy/kubernetes/"));
    files.flat_map(|file| parsed(&file.text)).collect()
}

fn parsed(text: &str) -> Vec<Document> {
    serde_saphyr::from_multiple(text).unwrap()
}

fn deployments(documents: &[Document]) -> impl Iterator<Item = &Deployment> {
    documents.iter().filter_map(|document| match document {
        Document::Deployment(deployment) => Some(deployment),
        _ => None,
    })
}

fn secret<'a>(documents: &'a [Document], name: &str) -> Option<&'a Secret> {
    documents.iter().find_map(|document| match document {
        Document::Secret(secret) if secret.metadata.name == name => Some(secret),
        _ => None,
    })
}

fn containers(pod: &PodSpec) -> impl Iterator<Item = &Container> {
    pod.init_containers.iter().chain(&pod.containers)
}

/// What the container would see, with its mounted files in a folder of this machine.
fn environment(
    documents: &[Document],
    pod: &PodSpec,
    container: &Container,
    files: &TempDir,
) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::new();
    for variable in &container.env {
        let value = match (&variable.value, &variable.value_from) {
            (Some(value), None) => value.clone(),
            (None, Some(from)) => {
                let secret = secret(documents, &from.secret_key_ref.name).unwrap();
                secret.string_data[&from.secret_key_ref.key].clone()
            }
            other => panic!("{}: {other:?}", variable.name),
        };
        environment.insert(variable.name.clone(), value);
    }
    for mount in &container.volume_mounts {
        let volume = pod.volumes.iter().find(|it| it.name == mount.name).unwrap();
        let secret = secret(documents, &volume.secret.secret_name).unwrap();
        for item in &volume.secret.items {
            let here = files.path().join(&item.path);
            fs::write(&here, &secret.string_data[&item.key]).unwrap();
            let there = format!("{}/{}", mount.path, item.path);
            for value in environment.values_mut().filter(|it| **it == there) {
                here.to_str().unwrap().clone_into(value);
            }
        }
    }
    environment
}

fn problems(documents: &[Document]) -> Vec<String> {
    let mut problems = Vec::new();
    for document in documents {
        let (version, expected) = match document {
            Document::Secret(it) => (&it.api_version, "v1"),
            Document::Service(it) => (&it.api_version, "v1"),
            Document::Deployment(it) => (&it.api_version, "apps/v1"),
            Document::PodDisruptionBudget(it) => (&it.api_version, "policy/v1"),
            Document::ServiceAccount(it) => (&it.api_version, "v1"),
            Document::NetworkPolicy(it) => (&it.api_version, "networking.k8s.io/v1"),
        };
        if version != expected {
            problems.push(format!("{version} has no such kind"));
        }
        of_selector(documents, document, &mut problems);
        match document {
            Document::NetworkPolicy(policy) => of_policy(policy, &mut problems),
            Document::ServiceAccount(it) if it.automount_service_account_token => {
                problems.push(format!("{}: can ask the cluster", it.metadata.name));
            }
            _ => {}
        }
    }
    for deployment in deployments(documents) {
        of_deployment(documents, deployment, &mut problems);
    }
    problems
}

fn of_selector(documents: &[Document], document: &Document, problems: &mut Vec<String>) {
    let (metadata, selector) = match document {
        Document::Service(it) => (&it.metadata, &it.spec.selector),
        Document::PodDisruptionBudget(it) => (&it.metadata, &it.spec.selector.match_labels),
        Document::NetworkPolicy(it) => (&it.metadata, &it.spec.pod_selector.match_labels),
        _ => return,
    };
    let mut pods = deployments(documents).map(|it| &it.spec.template);
    let fits = |labels: &BTreeMap<_, _>| {
        let mut wanted = selector.iter();
        wanted.all(|(key, value)| labels.get(key) == Some(value))
    };
    let Some(pod) = pods.find(|pod| fits(&pod.metadata.labels)) else {
        problems.push(format!("{} selects nothing", metadata.name));
        return;
    };
    let Document::Service(service) = document else {
        return;
    };
    for port in &service.spec.ports {
        let mut ports = pod.spec.containers.iter().flat_map(|it| &it.ports);
        if !ports.any(|it| it.name == port.target_port && it.container_port == port.port) {
            problems.push(format!("port {} leads nowhere", port.port));
        }
    }
}

/// Pods may come to the port for locks, and to no other.
fn of_policy(policy: &NetworkPolicy, problems: &mut Vec<String>) {
    let ingress = &policy.spec.ingress;
    let ports = ingress
        .iter()
        .flat_map(|it| &it.ports)
        .map(|it| it.port.as_str());
    let is_open = ingress.iter().any(|it| it.from.is_empty());
    if policy.spec.policy_types != ["Ingress"] || is_open || !ports.eq(["grpc"]) {
        problems.push(format!("{} lets others in", policy.metadata.name));
    }
}

fn of_deployment(documents: &[Document], deployment: &Deployment, problems: &mut Vec<String>) {
    let spec = &deployment.spec;
    let mut say = |what: &str| problems.push(format!("{}: {what}", deployment.metadata.name));
    if spec.selector.match_labels != spec.template.metadata.labels || spec.replicas < 2 {
        say("does not select its own pods, or has one only");
    }
    let pod = &spec.template.spec;
    if !pod.security_context.run_as_non_root || pod.security_context.run_as_user == 0 {
        say("runs as root");
    }
    let account = |name: &String| {
        documents.iter().any(
            |it| matches!(it, Document::ServiceAccount(account) if account.metadata.name == *name),
        )
    };
    if !pod.service_account_name.as_ref().is_none_or(account) {
        say("runs under an account that is not there");
    }
    if pod.automount_service_account_token {
        say("can ask the cluster");
    }
    for container in containers(pod) {
        let security = &container.security_context;
        if security.allow_privilege_escalation
            || !security.read_only_root_filesystem
            || security.capabilities.drop != ["ALL"]
        {
            say("has privileges");
        }
        if !is_pinned(&container.image) {
            say("its image may change");
        }
        let resources = &container.resources;
        if !resources.requests.contains_key("memory") || !resources.limits.contains_key("memory") {
            say("has no bounds");
        }
        for mount in &container.volume_mounts {
            if !mount.read_only || !pod.volumes.iter().any(|it| it.name == mount.name) {
                say("mounts what is not there, or writes to it");
            }
        }
        let refs = container.env.iter().filter_map(|it| it.value_from.as_ref());
        let refs = refs.map(|it| (&it.secret_key_ref.name, &it.secret_key_ref.key));
        let volumes = pod.volumes.iter().map(|it| &it.secret);
        let items = volumes.flat_map(|it| it.items.iter().map(|item| (&it.secret_name, &item.key)));
        for (name, key) in refs.chain(items) {
            if !secret(documents, name).is_some_and(|it| it.string_data.contains_key(key)) {
                say(&format!("secret {name} has no {key}"));
            }
        }
        let probes = [
            &container.startup_probe,
            &container.readiness_probe,
            &container.liveness_probe,
        ];
        for probe in probes.into_iter().flatten() {
            of_probe(container, probe, &mut say);
        }
        let must_be_probed = container.image.starts_with("lockkeeper:");
        if must_be_probed && container.readiness_probe.is_none() {
            say("has no readiness probe");
        }
        let needs_store = |probe: &Probe| {
            probe.exec.is_some()
                || probe
                    .http_get
                    .as_ref()
                    .is_some_and(|it| it.path != "/livez")
        };
        if container.liveness_probe.as_ref().is_some_and(needs_store) {
            say("is restarted when the store is away");
        }
    }
}

fn of_probe(container: &Container, probe: &Probe, say: &mut dyn FnMut(&str)) {
    if probe.period_seconds == 0 || probe.timeout_seconds == 0 || probe.failure_threshold == 0 {
        say("has a probe without time");
    }
    match (&probe.http_get, &probe.exec) {
        (Some(get), None) => {
            let is_there = container.ports.iter().any(|it| it.name == get.port);
            if !is_there || get.port != "admin" || !["/livez", "/readyz"].contains(&&*get.path) {
                say("is probed where it does not answer");
            }
        }
        (None, Some(exec)) if exec.command.first().is_some_and(|it| it == "lockkeeper") => {}
        _ => say("has a probe that asks nothing"),
    }
}

#[test]
fn broken_manifests_are_found() {
    let files = tree().into_iter();
    let files = files.filter(|file| file.path.starts_with("deploy/kubernetes/"));
    let all = files
        .map(|file| file.text)
        .collect::<Vec<_>>()
        .join("---\n");
    let broken = |from: &str, to: &str| {
        assert!(all.contains(from), "{from}");
        problems(&parsed(&all.replace(from, to)))
    };
    let cases = [
        ("apiVersion: apps/v1", "apiVersion: v1", "no such kind"),
        ("runAsNonRoot: true", "runAsNonRoot: false", "runs as root"),
        ("drop: [ALL]", "drop: []", "has privileges"),
        (
            "readOnlyRootFilesystem: true",
            "readOnlyRootFilesystem: false",
            "has privileges",
        ),
        ("lockkeeper:0.1.0", "lockkeeper:latest", "may change"),
        (
            "  session-secret: r",
            "  secret: r",
            "has no session-secret",
        ),
        ("  store-url: r", "  url: r", "has no store-url"),
        ("targetPort: grpc", "targetPort: http", "leads nowhere"),
        ("path: /readyz", "path: /ready", "does not answer"),
        ("- name: admin", "- name: other", "does not answer"),
        (
            "path: /livez\n              port: admin\n            periodSeconds: 10",
            "path: /readyz\n              port: admin\n            periodSeconds: 10",
            "when the store is away",
        ),
        (
            "serviceAccountName: lockkeeper",
            "serviceAccountName: other",
            "not there",
        ),
        (
            "automountServiceAccountToken: false\n---",
            "automountServiceAccountToken: true\n---",
            "can ask the cluster",
        ),
        ("- port: grpc", "- port: admin", "lets others in"),
        (
            "    - from:\n        - podSelector: {}",
            "    - from: []",
            "lets others in",
        ),
        (
            "    app.kubernetes.io/component: coordinator\n  ports",
            "    app: other\n  ports",
            "selects nothing",
        ),
    ];
    for (from, to, said) in cases {
        expect_problem(&broken(from, to), said);
    }
    let unknown = all.replace("readinessProbe", "readynessProbe");
    assert!(serde_saphyr::from_multiple::<Document>(&unknown).is_err());
}
