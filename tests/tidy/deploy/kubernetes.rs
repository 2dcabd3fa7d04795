//! `deploy/kubernetes/`: images are pinned, probes ask what they are for, and pods reach no more
//! than they need. `tests/deploy/check.py` checks the rest of the manifests.

use serde_json::Value;

use super::{expect_problem, is_pinned, items, strings};
use crate::{expect_none, source::tree};

#[test]
fn the_manifests_hold_together() {
    let documents = parsed(&manifests());
    assert_eq!(documents.len(), 9);
    expect_none(&problems(&documents));
}

#[test]
fn only_a_file_that_says_insecure_admits_callers_without_credentials() {
    let files = tree().into_iter();
    for file in files.filter(|file| file.path.starts_with("deploy/kubernetes/")) {
        let is_open = file.text.contains("ALLOW_UNAUTHENTICATED");
        assert_eq!(
            is_open,
            file.path.ends_with("-insecure.yaml"),
            "{}",
            file.path
        );
    }
}

#[test]
fn the_sidecar_is_one_that_is_started_first_and_stopped_last() {
    let documents = parsed(&manifests());
    let sidecars = pods(&documents).flat_map(|pod| items(&pod["initContainers"]));
    let policies: Vec<_> = sidecars.map(|it| &it["restartPolicy"]).collect();
    assert_eq!(policies, ["Always"]);
}

fn manifests() -> String {
    let files = tree().into_iter();
    let files = files.filter(|file| file.path.starts_with("deploy/kubernetes/"));
    let texts: Vec<_> = files.map(|file| file.text).collect();
    texts.join("---\n")
}

fn parsed(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

fn of_kind<'a>(documents: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    documents.iter().filter(move |it| it["kind"] == kind)
}

fn pods(documents: &[Value]) -> impl Iterator<Item = &Value> {
    of_kind(documents, "Deployment").map(|it| &it["spec"]["template"]["spec"])
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    items(&pod["initContainers"]).chain(items(&pod["containers"]))
}

fn is_ours(container: &Value) -> bool {
    let image = container["image"].as_str();
    image.is_some_and(|it| it.starts_with("lockkeeper:"))
}

fn problems(documents: &[Value]) -> Vec<String> {
    let mut problems = Vec::new();
    for policy in of_kind(documents, "NetworkPolicy").map(|it| &it["spec"]) {
        let open = items(&policy["ingress"]).flat_map(|it| items(&it["ports"]));
        // Pods may come to the port for locks, and to no other.
        if !strings(&policy["policyTypes"]).contains(&"Ingress")
            || !open.map(|it| &it["port"]).eq(["grpc"])
        {
            problems.push("the policy lets others in".to_owned());
        }
        let reached = items(&policy["egress"]);
        if !strings(&policy["policyTypes"]).contains(&"Egress")
            || reached
                .into_iter()
                .any(|it| items(&it["ports"]).count() == 0)
        {
            problems.push("the policy lets out everywhere".to_owned());
        }
    }
    for account in of_kind(documents, "ServiceAccount") {
        if account["automountServiceAccountToken"] != false {
            problems.push("the account can ask the cluster".to_owned());
        }
    }
    for deployment in of_kind(documents, "Deployment") {
        if deployment["spec"]["replicas"].as_u64() < Some(2) {
            problems.push("one only".to_owned());
        }
    }
    for container in pods(documents).flat_map(containers) {
        of_container(container, &mut |what| {
            problems.push(format!("{}: {what}", container["name"]));
        });
    }
    problems
}

fn of_container(container: &Value, say: &mut dyn FnMut(&str)) {
    if !is_pinned(container["image"].as_str().unwrap()) {
        say("its image may change");
    }
    if container["resources"]["requests"]["memory"].is_null() {
        say("has no bounds");
    }
    if is_ours(container) && container["readinessProbe"].is_null() {
        say("has no readiness probe");
    }
    for kind in ["startupProbe", "readinessProbe", "livenessProbe"] {
        let probe = &container[kind];
        if probe.is_null() {
            continue;
        }
        for key in ["periodSeconds", "timeoutSeconds", "failureThreshold"] {
            if probe[key].as_u64().is_none_or(|it| it == 0) {
                say("has a probe without time");
            }
        }
        let (get, exec) = (&probe["httpGet"], &probe["exec"]["command"][0]);
        let asks = match (get["path"].as_str(), exec.as_str()) {
            (Some(path), None) => get["port"] == "admin" && ["/livez", "/readyz"].contains(&path),
            (None, Some(program)) => program == "lockkeeper",
            _ => false,
        };
        if !asks {
            say("is probed where it does not answer");
        }
        if kind == "livenessProbe" && get["path"] != "/livez" {
            say("is restarted when the store is away");
        }
    }
}

#[test]
fn broken_manifests_are_found() {
    let all = manifests();
    let liveness = "path: /livez\n              port: admin\n            periodSeconds: 10";
    let account = "automountServiceAccountToken: false\n---";
    let cases = [
        ("lockkeeper:0.2.0", "lockkeeper:latest", "may change"),
        ("path: /readyz", "path: /ready", "does not answer"),
        ("port: admin", "port: other", "does not answer"),
        ("command: [lockkeeper", "command: [true", "does not answer"),
        ("timeoutSeconds: 2", "timeoutSeconds: 0", "without time"),
        ("readinessProbe", "readynessProbe", "no readiness"),
        (
            liveness,
            &liveness.replace("livez", "readyz"),
            "store is away",
        ),
        (account, &account.replace("false", "true"), "can ask the"),
        ("- port: grpc", "- port: admin", "lets others in"),
        ("[Ingress, Egress]", "[Ingress]", "lets out everywhere"),
        (
            "ports:\n        - port: 6379",
            "to:\n        - port: 6379",
            "lets out everywhere",
        ),
        ("replicas: 2", "replicas: 1", "one only"),
        ("memory: 64Mi", "disk: 64Mi", "has no bounds"),
    ];
    for (from, to, said) in cases {
        assert!(all.contains(from), "{from}");
        expect_problem(&problems(&parsed(&all.replace(from, to))), said);
    }
}
