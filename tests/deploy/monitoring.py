"""What the real Prometheus operator makes of the chart's monitors, in the real Prometheus: the
labels that `alerts` tests the rules with. Debian's Prometheus has no discovery of Kubernetes, so
what that finds is written to a file, under the names that Prometheus documents."""

import contextlib
import gzip
import json
import pathlib
import re
import tempfile
import time
from base64 import b64decode

import yaml

import alerts
from cluster import BINARIES, succeeded
from support import CHART, LEAST, flags, free_ports, of_kind, until_it_answers

KINDS = {"ServiceMonitor": "endpoints", "PodMonitor": "podMetricsEndpoints"}
ADDRESS = "10.0.0.1"


def eventually(look):
    """What it finds, once it finds something."""
    until = time.monotonic() + 90
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.2)
    raise AssertionError(f"{look.__name__} finds nothing")


def release_with(cluster, kind):
    """A release with such a monitor, and what its labels should be."""
    namespace = cluster.namespace(f"labels-{kind.lower()}")
    switch = f"{kind[0].lower()}{kind[1:]}.enabled"
    values = {switch: "true", "networkPolicy.enabled": "false", "prometheusRule.enabled": "true"}
    command = ["install", "release", str(CHART), "--namespace", namespace]
    succeeded(cluster.helm(*command, *flags(LEAST | values)))
    manifest = cluster.helm("get", "manifest", "release", "--namespace", namespace)
    documents = [it for it in yaml.safe_load_all(succeeded(manifest)) if it]
    target = alerts.target_of_chart(documents, kind, KINDS[kind], namespace)
    assert target["instance"] == f"{ADDRESS}:7626", target
    return documents, target


def discovered(documents, kind, target):
    """What Prometheus finds of a pod that runs, before the operator's rules."""
    template = of_kind(documents, "Deployment")[0]["spec"]["template"]
    found = {
        "namespace": target["namespace"],
        "pod_name": target["pod"],
        "pod_container_name": template["spec"]["containers"][0]["name"],
        "pod_phase": "Running",
        "pod_ready": "true",
    } | labels_of("pod", template)
    if kind == "ServiceMonitor":
        services = of_kind(documents, "Service")
        admin = next(it for it in services if it["spec"]["ports"][0]["name"] == "admin")
        found |= {
            "service_name": admin["metadata"]["name"],
            "endpoint_port_name": "admin",
            "endpoint_ready": "true",
            "endpoint_address_target_kind": "Pod",
            "endpoint_address_target_name": target["pod"],
        } | labels_of("service", admin)
    else:
        found |= {"pod_container_port_name": "admin", "pod_container_port_number": "7626"}
    return {f"__meta_kubernetes_{name}": value for name, value in found.items()}


def labels_of(of, document):
    """The labels of an object, as Prometheus names them."""
    labels = document["metadata"]["labels"].items()
    labels = {re.sub(r"\W", "_", name): value for name, value in labels}
    present = {f"{of}_labelpresent_{name}": "true" for name in labels}
    return present | {f"{of}_label_{name}": value for name, value in labels.items()}


def prometheus_of(cluster):
    """Where the operator writes the configuration of a Prometheus that selects everything."""
    namespace = cluster.namespace("monitoring")
    selectors = {
        f"{kind}{it}": {}
        for kind in ("serviceMonitor", "podMonitor", "rule")
        for it in ("Selector", "NamespaceSelector")
    }
    # Debian's, which is started below.
    spec = selectors | {"version": "v2.42.0", "serviceAccountName": "default"}
    metadata = {"name": "it"}
    made = {"apiVersion": "monitoring.coreos.com/v1", "kind": "Prometheus", "metadata": metadata}
    succeeded(cluster.apply(namespace, [made | {"spec": spec}]))
    return namespace


def configuration(cluster, namespace, jobs):
    """What the operator has written, with all jobs."""

    def written():
        what = ["get", "secret", "prometheus-it", "--output", "json"]
        secret = cluster.kubectl("--namespace", namespace, *what)
        if secret.returncode != 0:
            return None
        packed = json.loads(secret.stdout).get("data", {}).get("prometheus.yaml.gz")
        if not packed:
            return None
        # The first of the Prometheus servers, as the operator's reloader fills it in.
        text = gzip.decompress(b64decode(packed)).decode().replace("$(SHARD)", "0")
        config = yaml.safe_load(text)
        return config if len(config["scrape_configs"]) == jobs else None

    return eventually(written)


def found_in_files(config, folder, found):
    """The configuration, with what each kind of monitor finds instead of the discovery."""
    for job in config["scrape_configs"]:
        kind = "PodMonitor" if job["job_name"].startswith("podMonitor/") else "ServiceMonitor"
        path = folder / f"{kind}.json"
        path.write_text(json.dumps([{"targets": [f"{ADDRESS}:7626"], "labels": found[kind]}]))
        del job["kubernetes_sd_configs"]
        job["file_sd_configs"] = [{"files": [str(path)]}]
    return config | {"rule_files": []}


def targets(address, process, count):
    """The labels of all targets that Prometheus has found."""

    def found():
        answer = json.loads(until_it_answers(f"{address}/api/v1/targets?state=active", process))
        active = answer["data"]["activeTargets"]
        return active if len(active) == count else None

    return [target["labels"] for target in eventually(found)]


def the_operator_makes_the_labels_of_the_alerts(cluster):
    expected, found = [], {}
    for kind in KINDS:
        documents, target = release_with(cluster, kind)
        found[kind] = discovered(documents, kind, target)
        expected.append(target)
    namespace = prometheus_of(cluster)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        web, operator = (f"127.0.0.1:{port}" for port in free_ports(2))
        serve = ["--web.listen-address", operator, "--log-level", "warn"]
        cluster.start(stack, str(BINARIES / "operator"), *serve)
        config = configuration(cluster, namespace, len(KINDS))
        path = folder / "prometheus.yaml"
        path.write_text(yaml.safe_dump(found_in_files(config, folder, found)))
        serve = ["--config.file", str(path), "--web.listen-address", web]
        process = cluster.start(stack, "prometheus", *serve, "--storage.tsdb.path", str(folder))
        made = targets(f"http://{web}", process, len(KINDS))
    order = {"key": lambda labels: labels["namespace"]}
    assert sorted(made, **order) == sorted(expected, **order), made
