"""What the chart promises about its values: what rolls the pods, which store the service leads to,
and that every value is documented."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import yaml

from support import CHART, CRANE, HERE, LEAST, TREE, documents_of, flags, free_ports, helm
from support import of_kind, rendered_with, selects, template, until_it_answers

SECRET = LEAST["session.secret"]
MONITORED = {"podMonitor__enabled": "true", "networkPolicy__enabled": "false"}

REFUSED = [
    ({"auth.allowUnauthenticated": "false"}, "callers need no credentials"),
    ({"auth.tokensSecret": "a"}, "auth.allowUnauthenticated excludes"),
    ({"auth.allowUnauthenticated": "false", "auth.tokensSecret": "a"}, "set tls.secretName"),
    ({"tls.clientCertificates": "true"}, "needs tls.secretName"),
    ({"tls.privateAuthority": "true"}, "needs tls.secretName"),
    ({"listenAddress": "::"}, "listenAddress"),
    ({"store.tls.clientCertificate": "true"}, "needs store.tls.secretName"),
    ({"tls.secretName": "a", "auth.tokensSecret": "b"}, "auth.allowUnauthenticated excludes"),
    ({"auth.jwtIssuer": "a"}, "need auth.jwks"),
    ({"store.url": "embedded:"}, "do not share"),
    ({"store.quorum[0]": "redis://a", "store.quorum[1]": "redis://b"}, "quorum"),
    ({f"store.quorum[{at}]": "embedded:" for at in range(3)}, "quorum"),
    (
        {
            "auth.allowUnauthenticated": "false",
            "tls.secretName": "a",
            "auth.tokensSecret": "b",
        },
        "set store.keyPrefix",
    ),
    (
        {"access.rules[0].identity": "a", "access.rules[0].allow[0]": "acquire"},
        "set store.keyPrefix",
    ),
    ({"replica": "3"}, "replica"),
    ({"replicas": "0"}, "replicas"),
    ({"session.secret": SECRET[1:]}, "session"),
    # A random one would be another at each `helm template`.
    ({"session.secret": ""}, "session.secret: set it"),
    ({"auth.allowUnauthenticated": "maybe"}, "allowUnauthenticated"),
    ({"service.port": "7626"}, "service.port and admin.port must differ"),
    ({"image.digest": "sha256:0123"}, "digest"),
    ({"serviceMonitor.enabled": "true"}, "set networkPolicy.adminFrom"),
    ({"podMonitor.enabled": "true"}, "set networkPolicy.adminFrom"),
    ({"podMonitor.enabled": "true", "serviceMonitor.enabled": "true"}, "scraped twice"),
    ({"prometheusRule.enabled": "true"}, "prometheusRule needs"),
    ({"autoscaling.enabled": "true", "autoscaling.minReplicas": "9"}, "must not exceed"),
    ({"env[0].name": "A"}, "env"),
]


def is_refused(values, said):
    answer = template(*flags(LEAST | values))
    assert answer.returncode != 0, "it is taken"
    assert said in answer.stderr, answer.stderr


def older_clusters_are_refused():
    """They would drop preStop.sleep, and stop coordinators that clients still look up."""
    answer = template(*flags(LEAST), "--kube-version", "1.29.14")
    assert answer.returncode != 0 and "incompatible" in answer.stderr, answer.stderr


def is_the_same_each_time():
    """Argo CD renders again and again, and applies what differs."""
    assert rendered_with() == rendered_with()


def pod_template(**values):
    return of_kind(rendered_with(**values), "Deployment")[0]["spec"]["template"]


def what_is_read_at_start_rolls_the_pods():
    before = pod_template()
    for change in [
        {"store__url": "redis://other:6379/0"},
        {"store__url": "redis://user:password@redis:6379/0"},
        {"session__secret": SECRET.upper()},
        {"config": "[log]"},
        {"access__quotas__sessions": "7"},
        {"existingSecret": "other"},
        {"store__keyPrefix": "locks:"},
    ]:
        assert pod_template(**change) != before, change


def a_release_of_the_chart_alone_does_not_roll_the_pods():
    with tempfile.TemporaryDirectory() as folder:
        packed = helm("package", str(CHART), "--version", "9.9.9", "--destination", folder)
        assert packed.returncode == 0, packed.stderr
        later = rendered_with(chart=pathlib.Path(folder) / "lockkeeper-9.9.9.tgz")
    assert of_kind(later, "Deployment")[0]["spec"]["template"] == pod_template()


def grpc_service(documents):
    services = of_kind(documents, "Service")
    return next(it for it in services if it["spec"]["ports"][0]["name"] == "grpc")


def stores(**values):
    """The stores of the pods and of the service, which are one."""
    documents = rendered_with(**values)
    labels = of_kind(documents, "Deployment")[0]["spec"]["template"]["metadata"]["labels"]
    selector = grpc_service(documents)["spec"]["selector"]
    assert selects(selector, labels)
    return selector["lockkeeper/store"]


def the_service_leads_to_one_store():
    """Pods with another store, which still run in a roll-out, are not selected."""
    before = stores()
    assert re.fullmatch("store-[0-9a-f]{12}", before), before
    for other in [
        {"store__url": "redis://other:6379/0"},
        {"store__url": "redis://redis:6379/1"},
        {"store__keyPrefix": "locks:"},
        {"existingSecret": "other"},
        {"store__id": "other"},
    ]:
        assert stores(**other) != before, other
    # The same store with other credentials, or another way in to one that has an id.
    assert stores(store__url="redis://user:p%2F@redis:6379/0?sentinel_password=a@b/c") == before
    assert stores(store__url="redis://elsewhere:6379/0", store__id=before) == before


def environment(**values):
    """What a coordinator is told in so many words."""
    container = pod_template(**values)["spec"]["containers"][0]
    return {it["name"]: it["value"] for it in container["env"] if "value" in it}


def fleet_settings(**values):
    beginning = "LOCKKEEPER__FLEET__"
    told = environment(tls__secretName="a", **values).items()
    return {name.removeprefix(beginning): value for name, value in told if beginning in name}


def coordinators_verify_each_other():
    """By the name that clients have, since no certificate has the address of a pod."""
    assert not any("FLEET" in name for name in environment())
    name = {"SERVER_NAME": "release-lockkeeper.here.svc"}
    assert fleet_settings() == name
    folder = "/etc/lockkeeper/tls"
    authority = {"CA_FILE": f"{folder}/ca.crt"}
    assert fleet_settings(tls__privateAuthority="true") == name | authority
    ours = {"CERTIFICATE_FILE": f"{folder}/tls.crt", "KEY_FILE": f"{folder}/tls.key"}
    closed = {"auth__allowUnauthenticated": "false", "store__keyPrefix": "a:"}
    assert fleet_settings(tls__clientCertificates="true", **closed) == name | ours
    # The environment is stronger than the file, so what the file says must stay out of it.
    for config in ["[fleet]\nserver_name = 'a'", "fleet.server_name = 'a'"]:
        assert fleet_settings(config=config) == {}, config
    own = {"name": "LOCKKEEPER__FLEET__SERVER_NAME", "value": "a"}
    own = {f"extraEnv[0].{key}": value for key, value in own.items()}
    assert fleet_settings(**own) == {"SERVER_NAME": "a"}


def pods_listen_where_it_is_said():
    for address in ["0.0.0.0", "[::]"]:
        told = environment(listenAddress=address)
        assert told["LOCKKEEPER__SERVER__LISTEN"] == f"{address}:7625", told
        assert told["LOCKKEEPER__ADMIN__LISTEN"] == f"{address}:7626", told


THREE = [f"redis://:geheim@{host}:6379" for host in ["a", "b", "c"]]


def quorum(stores):
    return {f"store__quorum[{at}]": store for at, store in enumerate(stores)}


def store_setting(**values):
    """The setting that names the stores, and where the Secret's value comes from."""
    container = pod_template(**values)["spec"]["containers"][0]
    named = [it for it in container["env"] if it["name"].startswith("LOCKKEEPER__STORE__")]
    (setting,) = [it for it in named if "valueFrom" in it]
    return setting["name"], setting["valueFrom"]["secretKeyRef"]["key"]


def a_quorum_replaces_the_store():
    documents = rendered_with(**quorum(THREE))
    data = of_kind(documents, "Secret")[0]["stringData"]
    assert data["store-quorum"] == " ".join(THREE) and "store-url" not in data, data
    assert store_setting(**quorum(THREE)) == ("LOCKKEEPER__STORE__QUORUM", "store-quorum")
    assert store_setting() == ("LOCKKEEPER__STORE__URL", "store-url")
    theirs = {"existingSecret": "other", "existingSecretKeys__storeQuorum": "stores"}
    assert store_setting(**theirs) == ("LOCKKEEPER__STORE__QUORUM", "stores")
    # Another order, or other credentials, are the same stores; another store is not.
    before = stores(**quorum(THREE))
    assert before != stores()
    assert stores(**quorum([it.replace("geheim", "neu") for it in reversed(THREE)])) == before
    assert stores(**quorum([*THREE[:2], "redis://d:6379"])) != before
    assert pod_template(**quorum(THREE)) != pod_template(**quorum(reversed(THREE)))


def an_autoscaler_has_the_replicas():
    assert of_kind(rendered_with(), "Deployment")[0]["spec"]["replicas"] == 2
    assert not of_kind(rendered_with(), "HorizontalPodAutoscaler")
    documents = rendered_with(autoscaling__enabled="true")
    deployment = of_kind(documents, "Deployment")[0]
    assert "replicas" not in deployment["spec"]
    target = of_kind(documents, "HorizontalPodAutoscaler")[0]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])
    assert "replicas" not in of_kind(rendered_with(replicas="null"), "Deployment")[0]["spec"]


def a_failover_does_not_empty_the_service():
    """All coordinators lose the store at once; 30 s is the lease of sessions by default."""
    plain = (TREE / "deploy/kubernetes/deployment.yaml").read_text()
    for documents in [rendered_with(), list(yaml.safe_load_all(plain))]:
        pod = of_kind(documents, "Deployment")[0]["spec"]["template"]["spec"]
        probe = pod["containers"][0]["readinessProbe"]
        assert probe["httpGet"]["path"] == "/readyz"
        assert probe["periodSeconds"] * probe["failureThreshold"] >= 30
        # Else coordinators that stop stay in the service until they are gone.
        assert "publishNotReadyAddresses" not in grpc_service(documents)["spec"]


def the_alerts_are_those_of_the_file():
    """All of them, about this release, and with links where they are asked for."""
    path = TREE / "deploy/prometheus/rules.yaml"
    there = yaml.safe_load(path.read_text())["groups"][0]["rules"]
    values = {"prometheusRule__enabled": "true", "prometheusRule__runbookUrl": "https://a/b/"}
    documents = rendered_with(**MONITORED, **values)
    here = of_kind(documents, "PrometheusRule")[0]["spec"]["groups"][0]["rules"]
    assert [rule["alert"] for rule in here] == [rule["alert"] for rule in there] and there
    of_release = 'job="lockkeeper",namespace="here",pod=~"release-lockkeeper-[a-z0-9]+-[a-z0-9]+"'
    for rule, original in zip(here, there):
        assert rule["expr"] == original["expr"].replace('job="lockkeeper"', of_release)
        # In the selector of each metric.
        metrics = re.findall(r"\b(?:up|(?:lockkeeper|process)_\w+)\b", rule["expr"])
        assert len(metrics) == rule["expr"].count(of_release), rule["expr"]
        section = f"docs/operating.md#{rule['alert'].lower()}"
        assert rule["annotations"]["runbook_url"] == f"https://a/b/{section}"
    bare = rendered_with(**MONITORED, prometheusRule__enabled="true")
    bare = of_kind(bare, "PrometheusRule")[0]["spec"]["groups"][0]["rules"]
    assert not any("runbook_url" in rule["annotations"] for rule in bare)


def the_monitors_make_the_job_of_the_alerts():
    """The operator's own would be the name of the service, or of the PodMonitor."""
    for kind, endpoints in [
        ("ServiceMonitor", "endpoints"),
        ("PodMonitor", "podMetricsEndpoints"),
    ]:
        values = {f"{kind[0].lower()}{kind[1:]}__enabled": "true"}
        documents = rendered_with(**values, networkPolicy__enabled="false", nameOverride="locks")
        endpoint = of_kind(documents, kind)[0]["spec"][endpoints][0]
        made = [it for it in endpoint["relabelings"] if it["targetLabel"] == "job"]
        assert [it["replacement"] for it in made] == ["lockkeeper"], kind


def the_image_is_named_by_its_digest():
    digest = f"sha256:{'0123456789abcdef' * 4}"
    pod = pod_template(image__digest=digest, image__tag="1.2.3")["spec"]
    assert pod["containers"][0]["image"] == f"lockkeeper@{digest}"


def the_package_is_whole():
    """What a registry has is the archive, in which nothing leads out of the chart."""
    everything = MONITORED | {"prometheusRule__enabled": "true", "dashboard__enabled": "true"}
    with tempfile.TemporaryDirectory() as folder:
        packed = helm("package", str(CHART), "--destination", folder)
        assert packed.returncode == 0, packed.stderr
        archive = next(pathlib.Path(folder).glob("*.tgz"))
        assert rendered_with(chart=archive, **everything) == rendered_with(**everything)


def the_package_comes_through_a_registry():
    """From the archive alone, as it is published: pushed, and rendered from where it was pushed."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = [CRANE, "registry", "serve", "--address", address]
    quiet = subprocess.DEVNULL
    with tempfile.TemporaryDirectory() as folder:
        # Nothing of it stays in the caller's home.
        home = {"env": {"PATH": os.environ["PATH"], "HOME": folder}}
        packed = helm("package", str(CHART), "--destination", folder)
        assert packed.returncode == 0, packed.stderr
        archive = next(pathlib.Path(folder).glob("*.tgz"))
        with subprocess.Popen(command, stdout=quiet, stderr=quiet) as registry:
            try:
                until_it_answers(f"http://{address}/v2/", registry)
                where = f"oci://{address}/charts"
                pushed = helm("push", str(archive), where, "--plain-http", **home)
                assert pushed.returncode == 0, pushed.stderr
                arguments = [*flags(LEAST), "--plain-http"]
                answer = template(*arguments, chart=f"{where}/lockkeeper", **home)
            finally:
                registry.kill()
    assert documents_of(answer) == rendered_with()


def paths(values, prefix=""):
    """Names of values, with their groups."""
    for key, value in values.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from paths(value, f"{prefix}{key}.")


def of_schema(schema, prefix=""):
    """Whether names are groups."""
    for key, below in schema["properties"].items():
        yield f"{prefix}{key}", "properties" in below
        if "properties" in below:
            yield from of_schema(below, f"{prefix}{key}.")


def every_value_has_a_default_a_schema_and_a_comment():
    named = dict(of_schema(yaml.safe_load((CHART / "values.schema.json").read_text())))
    # Of Helm itself.
    del named["global"]
    text = (CHART / "values.yaml").read_text()
    there = set(paths(yaml.safe_load(text)))
    assert set(named) <= there, f"without a default: {set(named) - there}"
    is_open = tuple(f"{name}." for name, is_group in named.items() if not is_group)
    unknown = {name for name in there - set(named) if not name.startswith(is_open)}
    assert not unknown, f"not in the schema: {unknown}"
    values = {name for name, is_group in named.items() if not is_group}
    assert values <= (commented := set(with_comments(text.splitlines()))), values - commented


def with_comments(lines):
    """Names of values that have a comment right above them."""
    path = []
    for above, line in zip(lines, lines[1:]):
        if found := re.match(r"( *)([A-Za-z]+):", line):
            path[len(found[1]) // 2 :] = [found[2]]
            if above.strip().startswith("#"):
                yield ".".join(path)


def notes(*arguments):
    """Helm shows them only after an install."""
    with tempfile.TemporaryDirectory() as folder:
        copied = shutil.copytree(CHART, pathlib.Path(folder) / "lockkeeper")
        text = (copied / "templates/NOTES.txt").read_text()
        shown = '{{ define "it" }}%s{{ end }}\nkind: Notes\ntext: {{ include "it" . | quote }}'
        (copied / "templates/notes.yaml").write_text(shown % text)
        documents = documents_of(template(*arguments, chart=copied))
    return of_kind(documents, "Notes")[0]["text"]


def notes_are_for_a_restricted_namespace():
    """That a real API server admits the pod of the command is seen in `apiserver/`."""
    said = notes(*flags(LEAST))
    overrides = yaml.safe_load(re.search(r"--overrides='(.*?)'", said)[1])["spec"]
    assert overrides["securityContext"]["runAsNonRoot"] is True
    assert overrides["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    own = overrides["containers"][0]["securityContext"]
    assert own == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    secured = notes("-f", str(HERE / "values/secured.yaml"))
    assert "Clients need the authority of lockkeeper-tls and credentials" in secured, secured


CHECKS = [
    older_clusters_are_refused,
    is_the_same_each_time,
    what_is_read_at_start_rolls_the_pods,
    a_release_of_the_chart_alone_does_not_roll_the_pods,
    the_service_leads_to_one_store,
    coordinators_verify_each_other,
    pods_listen_where_it_is_said,
    a_quorum_replaces_the_store,
    an_autoscaler_has_the_replicas,
    a_failover_does_not_empty_the_service,
    the_alerts_are_those_of_the_file,
    the_monitors_make_the_job_of_the_alerts,
    the_image_is_named_by_its_digest,
    the_package_is_whole,
    the_package_comes_through_a_registry,
    every_value_has_a_default_a_schema_and_a_comment,
    notes_are_for_a_restricted_namespace,
]
