"""The Helm chart, rendered with the values of `values/`, and the plain manifests: valid by
Kubernetes' own schemas, with names that lead somewhere, and with settings that the real binary
takes. Called by smoke.sh, which says where helm, the binary and promtool are."""

import copy
import functools
import json
import os
import pathlib
import shutil
import tempfile
import tomllib

import kubernetes_validate
import yaml

import alerts
import chart
from support import BINARY, CHART, FOREIGN_KINDS, HERE, OLDEST, TREE, containers, helm, of_kind
from support import rendered, run, run_checks, selects

# The oldest that the chart takes, and the newest that there is a schema of.
KUBERNETES = [OLDEST, kubernetes_validate.latest_version()]

# What stands in secrets that the chart does not make.
FOREIGN_SECRETS = {
    "lockkeeper-store": {
        "url": "rediss://:password@redis:6379/0",
        "secret": "0123456789abcdef0123456789abcdef",
    },
    "lockkeeper-store-ca": {
        "ca.crt": "an authority",
        "tls.crt": "a certificate",
        "tls.key": "a key",
    },
    "lockkeeper-tracing": {"OTEL_EXPORTER_OTLP_HEADERS": "a=b"},
    "lockkeeper-tokens": {"tokens": "billing 0123456789abcdef"},
    "lockkeeper-tls": {"tls.crt": "a certificate", "tls.key": "a key", "ca.crt": "an authority"},
}


def is_valid(documents):
    for document in documents:
        # `apiserver/check` holds them against the operator's own schemas.
        if document["kind"] in FOREIGN_KINDS:
            continue
        for version in KUBERNETES:
            kubernetes_validate.validate(document, version, strict=True)


def refuses_what_is_misspelt(documents):
    """The schemas are really looked at."""
    broken = copy.deepcopy(of_kind(documents, "Deployment")[0])
    broken["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    try:
        kubernetes_validate.validate(broken, KUBERNETES[0], strict=True)
    except kubernetes_validate.ValidationError:
        return
    raise AssertionError("a misspelt probe is taken")


def names_lead_somewhere(documents):
    names = [(document["kind"], document["metadata"]["name"]) for document in documents]
    assert len(names) == len(set(names)), names
    for deployment in of_kind(documents, "Deployment"):
        template = deployment["spec"]["template"]
        labels, pod = template["metadata"]["labels"], template["spec"]
        assert selects(deployment["spec"]["selector"]["matchLabels"], labels)
        for spread in pod.get("topologySpreadConstraints", []):
            assert selects(spread["labelSelector"]["matchLabels"], labels)
        account = pod.get("serviceAccountName", "default")
        assert account == "default" or ("ServiceAccount", account) in names, account
        ports = {port["name"] for it in pod["containers"] for port in it.get("ports", [])}
        coordinator = [it for it in containers(pod) if "lockkeeper" in it["image"]][0]
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"]:
            if "httpGet" in coordinator.get(probe, {}):
                assert coordinator[probe]["httpGet"]["port"] in ports
        if "coordinator" not in [container["name"] for container in pod["containers"]]:
            continue
        for service in of_kind(documents, "Service"):
            assert selects(service["spec"]["selector"], labels), service
            assert all(port["targetPort"] in ports for port in service["spec"]["ports"])
        for kind, key in [("NetworkPolicy", "podSelector"), ("PodDisruptionBudget", "selector")]:
            for document in of_kind(documents, kind):
                assert selects(document["spec"][key]["matchLabels"], labels), document
        for policy in of_kind(documents, "NetworkPolicy"):
            for ingress in policy["spec"]["ingress"]:
                assert ingress["from"], ingress
                assert all(port["port"] in ports for port in ingress["ports"]), ingress
            for egress in policy["spec"].get("egress", []):
                assert egress["ports"], egress


def monitors_lead_somewhere(documents):
    for monitor in of_kind(documents, "PodMonitor"):
        template = of_kind(documents, "Deployment")[0]["spec"]["template"]
        assert selects(monitor["spec"]["selector"]["matchLabels"], template["metadata"]["labels"])
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        assert all(it["port"] in ports for it in monitor["spec"]["podMetricsEndpoints"])
    for monitor in of_kind(documents, "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        services = of_kind(documents, "Service")
        found = [it for it in services if selects(wanted, it["metadata"]["labels"])]
        assert len(found) == 1, found
        ports = {port["name"] for port in found[0]["spec"]["ports"]}
        assert all(endpoint["port"] in ports for endpoint in monitor["spec"]["endpoints"])


def is_restricted(documents):
    """The profile `restricted` of the pod security standards, and bounds."""
    for deployment in of_kind(documents, "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        security = pod["securityContext"]
        # Without a user, OpenShift chooses one; the image's is not root either.
        assert security["runAsNonRoot"] and security.get("runAsUser", 65532) > 0
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for volume in pod["volumes"]:
            assert set(volume) & {"configMap", "secret", "emptyDir"}, volume
        for container in containers(pod):
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False
            assert own["readOnlyRootFilesystem"] is True
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]


def is_drained_without_its_store(documents):
    """No coordinator is ready then, and a node that is drained must not wait for that."""
    for budget in of_kind(documents, "PodDisruptionBudget"):
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow", budget


def contents(documents):
    """What secrets and config maps hold, by name and key."""
    found = {("secret", name): data for name, data in FOREIGN_SECRETS.items()}
    for secret in of_kind(documents, "Secret"):
        # The binary refuses the placeholder that a file asks to replace.
        replaced = {
            key: "0123456789abcdef" * 2 if value.startswith("replace this") else value
            for key, value in secret["stringData"].items()
        }
        found["secret", secret["metadata"]["name"]] = replaced
    for config in of_kind(documents, "ConfigMap"):
        found["configMap", config["metadata"]["name"]] = config["data"]
    return found


def settings(documents, pod, container, folder):
    """The settings that the binary makes of a container's arguments and environment, with the
    mounted files in a folder of this machine."""
    held = contents(documents)
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    moved = {}
    for mount in container["volumeMounts"]:
        assert mount["readOnly"], mount
        volume = volumes[mount["name"]]
        if "emptyDir" in volume:
            continue
        kind = "secret" if "secret" in volume else "configMap"
        source = volume[kind]
        data = held[kind, source.get("secretName", source.get("name"))]
        items = source.get("items", [{"key": key, "path": key} for key in data])
        for item in items:
            here = folder / mount["name"] / item["path"]
            here.parent.mkdir(exist_ok=True)
            here.write_text(data[item["key"]])
            moved[f"{mount['mountPath']}/{item['path']}"] = str(here)
    environment = {}
    for source in container.get("envFrom", []):
        kind = "secret" if "secretRef" in source else "configMap"
        data = held[kind, source[f"{kind}Ref"]["name"]]
        environment |= {name: moved.get(value, value) for name, value in data.items()}
    for variable in container["env"]:
        if "value" in variable:
            value = variable["value"]
        elif "fieldRef" in variable["valueFrom"]:
            assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP", variable
            value = "fd00::7"
        else:
            reference = variable["valueFrom"]["secretKeyRef"]
            value = held["secret", reference["name"]][reference["key"]]
        environment[variable["name"]] = moved.get(value, value)
    arguments = [moved.get(argument, argument) for argument in container["args"]]
    answer = run(BINARY, *arguments, "--print-config", env=environment)
    assert answer.returncode == 0, answer.stderr
    return tomllib.loads(answer.stdout)


def is_taken_by_the_binary(documents):
    for deployment in of_kind(documents, "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        for container in containers(pod):
            if "lockkeeper" in container["image"]:
                with tempfile.TemporaryDirectory() as folder:
                    said = settings(documents, pod, container, pathlib.Path(folder))
                server, admin = said["server"]["listen"], said["admin"]["listen"]
                ports = {it["name"]: str(it["containerPort"]) for it in container.get("ports", [])}
                # A sidecar serves its own pod only.
                host, grpc = server.rsplit(":", 1)
                assert (host == "127.0.0.1") == (not ports), server
                assert not ports or [grpc, admin] == [ports["grpc"], f"{host}:{ports['admin']}"]
                # The image has nothing that an `exec` could run but the binary.
                stop = container.get("lifecycle", {}).get("preStop", {"sleep": {"seconds": 0}})
                drain = int(said["server"]["drain_grace"].removesuffix("s"))
                assert pod["terminationGracePeriodSeconds"] > stop["sleep"]["seconds"] + drain


def systemd_takes_the_unit():
    """systemd's own opinion of the unit, with a program that is there."""
    unit = (TREE / "deploy/systemd/lockkeeper.service").read_text()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "lockkeeper.service"
        path.write_text(unit.replace("/usr/local/bin/lockkeeper", BINARY))
        verified = run("systemd-analyze", "verify", "--recursive-errors=no", str(path))
        assert verified.returncode == 0 and not verified.stderr, verified.stderr
        # Tenths of how exposed it is, 100 at the worst.
        rated = run("systemd-analyze", "security", "--offline=true", "--threshold=20", str(path))
        assert rated.returncode == 0, rated.stdout


def version_is_the_crate_s(_documents):
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    manifest = (TREE / "Cargo.toml").read_text()
    assert f'\nversion = "{chart["appVersion"]}"\n' in manifest, chart["appVersion"]


def lints(values):
    answer = helm("lint", "--strict", str(CHART), "-f", str(values))
    assert answer.returncode == 0 and "[WARNING]" not in answer.stdout, answer.stdout


def everything_is_on(documents):
    """Values that are not looked at would pass everything else."""
    text = json.dumps(documents)
    for value in [
        "registry.example/lockkeeper:0.2.0",
        "spiffe://example/billing",
        "7000",
        "system-cluster-critical",
        "OTEL_SERVICE_NAME",
        "locks:",
        "Egress",
        "example.org/rack",
        "/etc/store-ca",
        "lockkeeper-tracing",
        "grafana_folder",
    ]:
        assert value in text, value
    assert not of_kind(documents, "Secret"), "the secret is there already"
    for kind in ["NetworkPolicy", "PodDisruptionBudget", "ServiceMonitor", "PrometheusRule"]:
        assert of_kind(documents, kind), kind


def almost_nothing_is_on(documents):
    kinds = sorted(document["kind"] for document in documents)
    assert kinds == ["ConfigMap", "Deployment", "Secret", "Service", "Service"], kinds


def plain_without(settings):
    paths = sorted((TREE / "deploy/kubernetes").glob("*.yaml"))
    texts = [path.read_text() for path in paths if path.name != settings]
    return [document for text in texts for document in yaml.safe_load_all(text)]


def of_documents(name, documents, checks):
    """The checks of what a function returns, which is called once."""
    documents = functools.cache(documents)
    for check in checks:
        yield f"{name}: {check.__name__}", lambda check=check: check(documents())


def main():
    every = [
        is_valid,
        names_lead_somewhere,
        monitors_lead_somewhere,
        is_restricted,
        is_drained_without_its_store,
        is_taken_by_the_binary,
    ]
    some = {"secured": [everything_is_on], "bare": [almost_nothing_is_on]}
    todo = []
    for values in sorted((HERE / "values").glob("*.yaml")):
        name = values.stem
        todo.append((f"{name}: lints", functools.partial(lints, values)))
        documents = functools.partial(rendered, values)
        todo += of_documents(name, documents, [*every, *some.get(name, [])])
    every += [refuses_what_is_misspelt, version_is_the_crate_s]
    for name, others in [
        ("plain", "settings-insecure.yaml"),
        ("plain, insecure", "settings.yaml"),
    ]:
        todo += of_documents(name, functools.partial(plain_without, others), every)
    for values, said in chart.REFUSED:
        name = f"refused: {' '.join(values)}: {said}"
        todo.append((name, functools.partial(chart.is_refused, values, said)))
    todo += [(f"chart: {check.__name__}", check) for check in chart.CHECKS]
    todo += alerts.checks()
    if shutil.which("systemd-analyze"):
        todo.append(("systemd: takes the unit", systemd_takes_the_unit))
    else:
        print("SKIPPED deploy: systemd-analyze is not installed, so only tests/tidy reads the unit")
    run_checks(todo)


if __name__ == "__main__":
    os.environ.pop("LOCKKEEPER_SERVER", None)
    main()
