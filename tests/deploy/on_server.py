"""The manifests and the chart on a real API server with Pod Security `restricted`: everything is
admitted without a warning, and upgrades do what the chart promises. Called by kubernetes.sh."""

import re
import shlex
import signal
import sys

import yaml

from cluster import BINARIES, Cluster, succeeded
from monitoring import the_operator_makes_the_labels_of_the_alerts
from support import CHART, HERE, LEAST, TREE, flags, of_kind, rendered_with, run_checks

MANIFESTS = TREE / "deploy/kubernetes"
NAME = "release-lockkeeper"


def plain(*names):
    return [it for name in names for it in yaml.safe_load_all((MANIFESTS / name).read_text())]


def pods_are_admitted(cluster, namespace):
    """The pods that the deployments there would make; no controller makes them here."""
    deployments = cluster.get(namespace, "deployments")["items"]
    assert deployments
    for deployment in deployments:
        template = deployment["spec"]["template"]
        # As the server has it: what it does not know it would have dropped.
        metadata = template["metadata"] | {"name": deployment["metadata"]["name"]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        succeeded(cluster.apply(namespace, [pod], verb="create"))


def a_bare_pod_is_refused(cluster):
    """Pod Security is really enforced."""
    container = {"name": "bare", "image": "lockkeeper"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare"}}
    answer = cluster.apply(cluster.namespace("bare"), [pod | {"spec": {"containers": [container]}}])
    assert answer.returncode != 0 and "violates PodSecurity" in answer.stderr, answer.stderr


def a_misspelt_field_is_refused(cluster):
    namespace = cluster.namespace("misspelt")
    deployment = of_kind(plain("deployment.yaml"), "Deployment")[0]
    deployment["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    answer = cluster.apply(namespace, [deployment])
    assert answer.returncode != 0 and "readynessProbe" in answer.stderr, answer.stderr


def the_manifests_are_admitted(cluster, settings):
    namespace = cluster.namespace(settings.removesuffix(".yaml"))
    documents = plain("secret.yaml", settings, "deployment.yaml", "sidecar.yaml")
    succeeded(cluster.apply(namespace, documents))
    pods_are_admitted(cluster, namespace)
    coordinator = cluster.get(namespace, "deployment", "lockkeeper")["spec"]["template"]["spec"]
    stop = coordinator["containers"][0]["lifecycle"]["preStop"]
    assert stop == {"sleep": {"seconds": 5}}, stop
    sidecar = cluster.get(namespace, "deployment", "application")["spec"]["template"]["spec"]
    assert sidecar["initContainers"][0]["restartPolicy"] == "Always"
    # What was applied is what is there.
    text = yaml.safe_dump_all(documents)
    succeeded(cluster.kubectl("--namespace", namespace, "diff", "--filename", "-", input=text))


def the_chart_is_admitted(cluster, values):
    namespace = cluster.namespace(values.stem)
    succeeded(install(cluster, namespace, "-f", str(values)))
    pods_are_admitted(cluster, namespace)


def install(cluster, namespace, *arguments):
    return cluster.helm("install", "release", str(CHART), "--namespace", namespace, *arguments)


def upgrade(cluster, namespace, **values):
    """Helm takes no values of the release before, but the chart's and these."""
    values = {key.replace("__", "."): value for key, value in values.items()}
    arguments = ["--namespace", namespace, *flags(LEAST | values)]
    return cluster.helm("upgrade", "release", str(CHART), *arguments)


def deployment_of(cluster, namespace):
    return cluster.get(namespace, "deployment", NAME)


def secret_of(cluster, namespace):
    return cluster.get(namespace, "secret", NAME)["data"]


def an_upgrade_with_the_same_values_changes_nothing(cluster):
    namespace = cluster.namespace("same")
    succeeded(install(cluster, namespace, *flags(LEAST)))
    succeeded(upgrade(cluster, namespace))
    # Of the release, although no value has it any more.
    succeeded(upgrade(cluster, namespace, session__secret=""))
    assert deployment_of(cluster, namespace)["metadata"]["generation"] == 1


def credentials_and_secrets_roll_the_pods(cluster):
    namespace = cluster.namespace("rolls")
    succeeded(install(cluster, namespace, *flags(LEAST)))
    before = deployment_of(cluster, namespace)
    for change in [
        {"store__url": "redis://user:password@redis:6379/0"},
        {"session__secret": LEAST["session.secret"].upper()},
    ]:
        succeeded(upgrade(cluster, namespace, **change))
        after = deployment_of(cluster, namespace)
        assert after["metadata"]["generation"] > before["metadata"]["generation"], change
        assert after["spec"]["template"] != before["spec"]["template"], change
        before = after


def another_store_waits_until_the_coordinators_are_stopped(cluster):
    namespace = cluster.namespace("store")
    other = {"store__url": "redis://other:6379/0"}
    succeeded(install(cluster, namespace, *flags(LEAST)))
    before = deployment_of(cluster, namespace), secret_of(cluster, namespace)
    refused = upgrade(cluster, namespace, **other)
    assert refused.returncode != 0 and "Stop them first" in refused.stderr, refused.stderr
    assert before == (deployment_of(cluster, namespace), secret_of(cluster, namespace))
    # The command of the message, and the upgrade again.
    stop = shlex.split(re.search(r"\((kubectl .*?)\)", refused.stderr)[1])[1:]
    succeeded(cluster.kubectl(*stop))
    assert deployment_of(cluster, namespace)["spec"]["replicas"] == 0
    succeeded(upgrade(cluster, namespace, **other))
    after = deployment_of(cluster, namespace)
    assert after["spec"]["replicas"] == 2
    store = after["spec"]["template"]["metadata"]["labels"]["lockkeeper/store"]
    assert store != before[0]["spec"]["template"]["metadata"]["labels"]["lockkeeper/store"]
    selector = cluster.get(namespace, "service", NAME)["spec"]["selector"]
    assert selector["lockkeeper/store"] == store
    # The same store under another address, by the id that the message names.
    renamed = {"store__url": "redis://third:6379/0"}
    refused = upgrade(cluster, namespace, **renamed)
    assert refused.returncode != 0 and f"set store.id={store}" in refused.stderr, refused.stderr
    succeeded(upgrade(cluster, namespace, **renamed, store__id=store))


def the_service_leads_to_one_store(cluster):
    """Where helm does not see the cluster, a roll-out leaves pods of the old store for a while."""
    namespace = cluster.namespace("one")
    succeeded(cluster.apply(namespace, rendered_with()))
    pods_are_admitted(cluster, namespace)
    assert len(pods_of_the_service(cluster, namespace)) == 1
    succeeded(cluster.apply(namespace, rendered_with(store__url="redis://other:6379/0")))
    assert not pods_of_the_service(cluster, namespace)
    assert len(cluster.get(namespace, "pods")["items"]) == 1


def pods_of_the_service(cluster, namespace):
    selector = cluster.get(namespace, "service", NAME)["spec"]["selector"]
    selector = ",".join(f"{key}={value}" for key, value in selector.items())
    return cluster.get(namespace, "pods", "--selector", selector)["items"]


def an_upgrade_leaves_the_number_to_the_autoscaler(cluster):
    for scaled, replicas in [("true", 5), ("false", 2)]:
        namespace = cluster.namespace(f"scaled-{scaled}")
        values = {"autoscaling.enabled": scaled}
        succeeded(install(cluster, namespace, *flags(LEAST | values)))
        command = ["--namespace", namespace, "scale", f"deployment/{NAME}", "--replicas=5"]
        succeeded(cluster.kubectl(*command))
        succeeded(upgrade(cluster, namespace, autoscaling__enabled=scaled, preStopSeconds="7"))
        assert deployment_of(cluster, namespace)["spec"]["replicas"] == replicas, scaled


def the_command_of_the_notes_is_admitted(cluster):
    namespace = cluster.namespace("notes")
    succeeded(install(cluster, namespace, *flags(LEAST)))
    notes = succeeded(cluster.helm("get", "notes", "release", "--namespace", namespace))
    command = re.search(r"kubectl (.* run try .*\\\n.*\\\n.*)", notes)[1].replace("\\\n", " ")
    # Nothing runs here that could be attached to, or removed when it ends.
    command = [word for word in shlex.split(command) if word not in ("--rm", "-it")]
    at = command.index("--")
    bare = [word for word in command if not word.startswith("--override")]
    refused = cluster.kubectl(*bare)
    assert "violates PodSecurity" in refused.stderr, refused.stderr
    succeeded(cluster.kubectl(*command[:at], "--warnings-as-errors", *command[at:]))
    pod = cluster.get(namespace, "pod", "try")["spec"]
    assert pod["containers"][0]["args"][0] == "try-acquire", pod
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert pod["containers"][0]["image"] == f"lockkeeper:{version}", pod


def the_operator_s_resources(cluster):
    """Of the operator that kubernetes.sh has built."""
    resources = str(BINARIES / "resources")
    succeeded(cluster.kubectl("apply", "--server-side", "--filename", resources))
    established = ["--for=condition=Established", "crd", "--all", "--timeout=60s"]
    succeeded(cluster.kubectl("wait", *established))
    # Their schemas are really looked at.
    namespace = cluster.namespace("resources")
    metadata = {"apiVersion": "monitoring.coreos.com/v1", "metadata": {"name": "misspelt"}}
    spec = {"selector": {}, "podMetricsEndpoints": [{"port": "admin", "relabeling": []}]}
    misspelt = metadata | {"kind": "PodMonitor", "spec": spec}
    answer = cluster.apply(namespace, [misspelt])
    assert answer.returncode != 0 and "relabeling" in answer.stderr, answer.stderr


def main():
    # So that the servers are ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Cluster() as cluster:
        checks = [
            a_bare_pod_is_refused,
            a_misspelt_field_is_refused,
            # First, because the chart's values ask for them.
            the_operator_s_resources,
            an_upgrade_with_the_same_values_changes_nothing,
            credentials_and_secrets_roll_the_pods,
            another_store_waits_until_the_coordinators_are_stopped,
            the_service_leads_to_one_store,
            an_upgrade_leaves_the_number_to_the_autoscaler,
            the_command_of_the_notes_is_admitted,
            the_operator_makes_the_labels_of_the_alerts,
        ]
        todo = [(check.__name__, lambda check=check: check(cluster)) for check in checks]
        for settings in ["settings.yaml", "settings-insecure.yaml"]:
            name = f"{settings}: the_manifests_are_admitted"
            todo.append((name, lambda it=settings: the_manifests_are_admitted(cluster, it)))
        for values in sorted((HERE / "values").glob("*.yaml")):
            name = f"{values.stem}: the_chart_is_admitted"
            todo.append((name, lambda it=values: the_chart_is_admitted(cluster, it)))
        run_checks(todo)


if __name__ == "__main__":
    main()
