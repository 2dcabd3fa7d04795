"""Every alert fires and does not fire, by `promtool test rules`: with the labels that the monitors
of the chart and the scrape configuration of docker-compose.yml make, and with series that the
binary really shows."""

import os
import pathlib
import re
import subprocess
import tempfile

import yaml

from support import BINARY, PROMTOOL, TREE, free_ports, of_kind, rendered_with, run
from support import until_it_answers

FOLDER = TREE / "deploy/prometheus"
RULES = FOLDER / "rules.yaml"
# Between two values of a series below.
INTERVAL = "15s"
LEASES = 'lockkeeper_leases_lost_total{reason="%s"}'
RENEWALS = 'lockkeeper_renewals_total{by="watchdog",result="%s"}'
LAG = 'lockkeeper_renewal_lag_seconds_bucket{le="%s"}'
CALLS = 'lockkeeper_store_call_seconds_bucket{script="lock_release",le="%s"}'
ERRORS = 'lockkeeper_store_errors_total{kind="%s"}'
WAKEUPS = 'lockkeeper_wakeups_total{source="%s"}'
HANDOVERS = 'lockkeeper_handover_seconds_count{source="message"}'
STEPS = 'lockkeeper_store_clock_steps_total{direction="forward"}'
REGRESSIONS = "lockkeeper_fencing_token_regressions_total"
COUNTERS = "lockkeeper_fencing_counters_refused_total"
EVICT = "lockkeeper_store_may_evict"
RIGHTS = "lockkeeper_store_rights_missing"
DEADLOCKS = "lockkeeper_deadlocks"
LIMIT = 'lockkeeper_limit_refusals_total{limit="waiters_max"}'
QUOTA = 'lockkeeper_quota_refusals_total{quota="waiters"}'
REFUSED = 'lockkeeper_connections_refused_total{reason="%s"}'
# A counter that was 0 and then is 1.
ONCE = "0x4 1x200"

# The alert, the series with their values, when, and whether it fires then: with which labels of
# the target, all of them if it says "target".
CASES = [
    ("LockkeeperDown", {"up": "1x4 0x20"}, "5m", "target"),
    ("LockkeeperDown", {"up": "1x4 0x20"}, "1m30s", None),
    ("LockkeeperDown", {"up": "1x20"}, "5m", None),
    # Stopped: first down, then forgotten.
    ("LockkeeperDown", {"up": "1x4 0 stale"}, "5m", "nothing"),
    ("LockkeeperDown", {}, "5m", "nothing"),
    ("LockkeeperStoreDown", {'lockkeeper_store_up{store="1"}': "1x4 0x20"}, "2m", {"store": "1"}),
    ("LockkeeperStoreDown", {'lockkeeper_store_up{store="1"}': "1x4 0 1x20"}, "2m", None),
    ("LockkeeperLeasesLost", {LEASES % "expired": ONCE}, "2m", {"reason": "expired"}),
    ("LockkeeperLeasesLost", {LEASES % "force_released": ONCE}, "2m", None),
    ("LockkeeperLeasesLost", {LEASES % "handed_over": ONCE}, "2m", None),
    ("LockkeeperLeasesLost", {LEASES % "expired": ONCE}, "10m", None),
    ("LockkeeperTokenRegression", {REGRESSIONS: ONCE}, "30m", "target"),
    ("LockkeeperTokenRegression", {REGRESSIONS: "1x200"}, "30m", None),
    ("LockkeeperCounterRefused", {COUNTERS: ONCE}, "30m", "target"),
    ("LockkeeperCounterRefused", {COUNTERS: "1x200"}, "30m", None),
    ("LockkeeperStoreMayEvict", {EVICT: "0x4 1x20"}, "3m", "target"),
    ("LockkeeperStoreMayEvict", {EVICT: "0x4 1 0x20"}, "3m", None),
    ("LockkeeperStoreRightsMissing", {RIGHTS: "0x4 2x20"}, "3m", "target"),
    ("LockkeeperStoreRightsMissing", {RIGHTS: "0x4 2 0x20"}, "3m", None),
    ("LockkeeperDeadlock", {DEADLOCKS: "0x4 1x20"}, "3m", "target"),
    ("LockkeeperDeadlock", {DEADLOCKS: "0x4 1 0x20"}, "3m", None),
    (
        "LockkeeperRenewalsFail",
        {RENEWALS % "failed": "0+20x20", RENEWALS % "renewed": "0+80x20"},
        "3m",
        {},
    ),
    (
        "LockkeeperRenewalsFail",
        {RENEWALS % "failed": "0+5x20", RENEWALS % "renewed": "0+95x20"},
        "3m",
        None,
    ),
    # Nothing is renewed: no division by zero.
    (
        "LockkeeperRenewalsFail",
        {RENEWALS % "failed": "0x20", RENEWALS % "renewed": "0x20"},
        "3m",
        None,
    ),
    ("LockkeeperRenewalLag", {LAG % "1": "0x80", LAG % "+Inf": "0+10x80"}, "15m", None),
    (
        "LockkeeperRenewalLag",
        {LAG % "1": "0x80", LAG % "5": "0+10x80", LAG % "+Inf": "0+10x80"},
        "15m",
        {},
    ),
    ("LockkeeperRenewalLag", {LAG % "1": "0+10x80", LAG % "+Inf": "0+10x80"}, "15m", None),
    (
        "LockkeeperStoreSlow",
        {CALLS % "0.25": "0x80", CALLS % "1": "0+10x80", CALLS % "+Inf": "0+10x80"},
        "15m",
        {},
    ),
    ("LockkeeperStoreSlow", {CALLS % "0.25": "0+10x80", CALLS % "+Inf": "0+10x80"}, "15m", None),
    ("LockkeeperStoreErrors", {ERRORS % "unavailable": "0+10x80"}, "15m", {"kind": "unavailable"}),
    ("LockkeeperStoreErrors", {ERRORS % "wrong_kind": "0+10x80"}, "15m", None),
    ("LockkeeperStoreErrors", {ERRORS % "unavailable": "0+1x80"}, "15m", None),
    (
        "LockkeeperWakeUpsByPoll",
        {WAKEUPS % "poll": "0+100x120", WAKEUPS % "message": "0+10x120", HANDOVERS: "0+30x120"},
        "25m",
        {},
    ),
    (
        "LockkeeperWakeUpsByPoll",
        {WAKEUPS % "poll": "0+100x120", WAKEUPS % "message": "0+50x120", HANDOVERS: "0+30x120"},
        "25m",
        None,
    ),
    (
        "LockkeeperWakeUpsByPoll",
        {WAKEUPS % "poll": "0+100x120", WAKEUPS % "message": "0+10x120", HANDOVERS: "0+1x120"},
        "25m",
        None,
    ),
    ("LockkeeperClock", {"lockkeeper_store_clock_skew_seconds": "-9x20"}, "4m", "target"),
    ("LockkeeperClock", {STEPS: ONCE}, "4m", {"direction": "forward", "target": True}),
    ("LockkeeperClock", {"lockkeeper_store_clock_skew_seconds": "1x20", STEPS: "7x20"}, "4m", None),
    ("LockkeeperLimitReached", {LIMIT: ONCE}, "2m", {"limit": "waiters_max"}),
    ("LockkeeperLimitReached", {LIMIT: "7x200"}, "2m", None),
    ("LockkeeperQuotaReached", {QUOTA: ONCE}, "2m", {"quota": "waiters"}),
    ("LockkeeperQuotaReached", {QUOTA: "7x200"}, "2m", None),
    (
        "LockkeeperConnectionsRefused",
        {REFUSED % "connections_max": ONCE},
        "2m",
        {"reason": "connections_max"},
    ),
    ("LockkeeperConnectionsRefused", {REFUSED % "handshake": ONCE}, "2m", None),
    (
        "LockkeeperFileDescriptors",
        {"process_open_fds": "90x80", "process_max_fds": "100x80"},
        "10m",
        "target",
    ),
    (
        "LockkeeperFileDescriptors",
        {"process_open_fds": "70x80", "process_max_fds": "100x80"},
        "10m",
        None,
    ),
]
# What an alert keeps of the target if the rule does not keep all.
KEPT = ["job", "namespace", "pod", "instance"]


def target_of_compose():
    """A target, as the configuration of Prometheus makes it."""
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"][0]
    labels = {"job": config["job_name"], "instance": "172.30.70.2:7626"}
    for static in config.get("static_configs", []):
        labels |= {"instance": static["targets"][0], **static.get("labels", {})}
    return labels


def pod_of(name):
    """The name of a pod of a Deployment, as Kubernetes makes it: the last 5 letters always stay."""
    return f"{name}-6d5b8c7f9d-"[:58] + "x2k4q"


def target_of_chart(documents, kind, endpoints, namespace="here"):
    """A target, as the operator makes it of a monitor and of a pod; its own job is the name of the
    service, or that of the PodMonitor with its namespace. `monitoring` compares it with the real
    operator's."""
    monitor = of_kind(documents, kind)[0]
    name = of_kind(documents, "Deployment")[0]["metadata"]["name"]
    endpoint = monitor["spec"][endpoints][0]
    labels = {
        "namespace": namespace,
        "pod": pod_of(name),
        "container": "coordinator",
        "endpoint": endpoint["port"],
        "instance": "10.0.0.1:7626",
    }
    if kind == "ServiceMonitor":
        labels |= {"service": f"{name}-admin", "job": f"{name}-admin"}
    else:
        labels["job"] = f"{namespace}/{monitor['metadata']['name']}"
    for relabeling in endpoint.get("relabelings", []):
        labels[relabeling["targetLabel"]] = relabeling["replacement"]
    return labels


def of_chart(kind, endpoints, **others):
    """The labels and the rules of a release with such a monitor."""
    switch = f"{kind[0].lower()}{kind[1:]}__enabled"
    values = {switch: "true", "networkPolicy__enabled": "false", "prometheusRule__enabled": "true"}
    documents = rendered_with(**values, **others)
    rules = of_kind(documents, "PrometheusRule")[0]["spec"]
    return target_of_chart(documents, kind, endpoints), rules


WHERE = {
    "compose": lambda: (target_of_compose(), yaml.safe_load(RULES.read_text())),
    "ServiceMonitor": lambda: of_chart("ServiceMonitor", "endpoints"),
    "PodMonitor": lambda: of_chart("PodMonitor", "podMetricsEndpoints"),
}


def series(name, labels):
    """`name{own}` with the labels of a target."""
    name, _, own = name.rstrip("}").partition("{")
    shown = [f'{key}="{value}"' for key, value in labels.items()]
    return f"{name}{{{','.join([own] * bool(own) + shown)}}}"


def expected_labels(fires, target):
    if fires == "target":
        return target
    if fires == "nothing":
        return {key: target[key] for key in ("job", "namespace") if key in target}
    keeps_all = fires.get("target")
    own = {key: value for key, value in fires.items() if key != "target"}
    return own | (target if keeps_all else {key: target[key] for key in KEPT if key in target})


def test_of(case, target, rules):
    """A case, in the form of promtool."""
    alert, given, at, fires = case
    expected = []
    if fires is not None:
        all_rules = (rule for group in rules["groups"] for rule in group["rules"])
        rule = next(rule for rule in all_rules if rule["alert"] == alert)
        labels = expected_labels(fires, target) | rule["labels"]
        expected = [{"exp_labels": labels, "exp_annotations": rule["annotations"]}]
    return {
        "interval": INTERVAL,
        "input_series": [
            {"series": series(name, target), "values": values} for name, values in given.items()
        ],
        "alert_rule_test": [{"eval_time": at, "alertname": alert, "exp_alerts": expected}],
    }


def promtool(tests, rules):
    """What promtool says to tests of rules."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
        suite = {"rule_files": ["rules.yaml"], "evaluation_interval": INTERVAL, "tests": tests}
        (folder / "tests.yaml").write_text(yaml.safe_dump(suite))
        return run(PROMTOOL, "test", "rules", str(folder / "tests.yaml"))


def fires_and_does_not_fire(where, alert):
    target, rules = WHERE[where]()
    cases = [case for case in CASES if case[0] == alert]
    outcomes = {case[3] is not None for case in cases}
    assert outcomes == {True, False}, "there is no case of one kind"
    answer = promtool([test_of(case, target, rules) for case in cases], rules)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def another_release_does_not_hide_that_one_is_gone():
    for where in ["ServiceMonitor", "PodMonitor"]:
        target, rules = WHERE[where]()
        gone = test_of(("LockkeeperDown", {}, "5m", "nothing"), target, rules)
        for other in [
            {"namespace": "there"},
            {"pod": f"other-{target['pod']}"},
            {"pod": target["pod"].replace("-6d5b8c7f9d", "-two-6d5b8c7f9d")},
        ]:
            runs = {"series": series("up", target | other), "values": "1x20"}
            answer = promtool([gone | {"input_series": [runs]}], rules)
            assert answer.returncode == 0, answer.stdout + answer.stderr


def another_release_s_series_fire_nothing():
    for where in ["ServiceMonitor", "PodMonitor"]:
        target, rules = WHERE[where]()
        for other in [{"namespace": "there"}, {"pod": f"other-{target['pod']}"}]:
            # Without a target of its own, LockkeeperDown rightly fires.
            tests = [
                test_of((alert, given, at, None), target | other, rules)
                for alert, given, at, fires in CASES
                if fires is not None and alert != "LockkeeperDown"
            ]
            answer = promtool(tests, rules)
            assert answer.returncode == 0, answer.stdout + answer.stderr


def pods_of_long_releases_are_found():
    """Of whose names Kubernetes keeps the beginning."""
    for length in [45, 46, 47, 52, 57, 58, 59, 63]:
        name = ("long-" * 13)[: length - 1] + "x"
        target, rules = of_chart("PodMonitor", "podMetricsEndpoints", fullnameOverride=name)
        cases = [case for case in CASES if case[0] == "LockkeeperDown" and case[1]]
        answer = promtool([test_of(case, target, rules) for case in cases], rules)
        assert answer.returncode == 0, (length, answer.stdout + answer.stderr)


def a_rule_that_cannot_fire_is_found():
    """As it was: another job, and nothing where the target is gone."""
    target, rules = WHERE["compose"]()
    down = rules["groups"][0]["rules"][0]
    assert down["alert"] == "LockkeeperDown"
    cases = [case for case in CASES if case[0] == "LockkeeperDown"]
    expr = down["expr"]
    for broken in [expr.partition(" or ")[0], expr.replace('job="lockkeeper"', 'job="other"')]:
        down["expr"] = broken
        answer = promtool([test_of(case, target, rules) for case in cases], rules)
        assert answer.returncode != 0 and "FAILED" in answer.stdout + answer.stderr, broken


def promtool_takes_the_files():
    for command, path in [("rules", RULES), ("config", FOLDER / "prometheus.yml")]:
        answer = run(PROMTOOL, "check", command, str(path))
        assert answer.returncode == 0, answer.stdout + answer.stderr


def shown_by_the_binary():
    """The series that a coordinator shows right after its start, and after a lock was used."""
    listen, admin = (f"127.0.0.1:{port}" for port in free_ports(2))
    command = [BINARY, "serve", "--store", "embedded:", "--listen", listen, "--admin-listen", admin]
    environment = {"PATH": os.environ["PATH"]}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet) as coordinator:
        try:
            url = f"http://{admin}/metrics"
            at_start = until_it_answers(url, coordinator)
            for verb in ["try-acquire", "release"]:
                call = [BINARY, verb, "a", "--owner", "me", "--server", f"http://{listen}"]
                subprocess.run(call, env=environment, check=True, stdout=quiet)
            later = until_it_answers(url, coordinator)
        finally:
            coordinator.kill()
    return [
        {parsed(line) for line in text.splitlines() if not line.startswith("#")}
        for text in (at_start, later)
    ]


def parsed(line):
    """A name and its labels; the borders of buckets are left out."""
    name, _, labels = line.rpartition(" ")[0].rstrip("}").partition("{")
    labels = re.findall(r'(\w+)="([^"]*)"', labels)
    return name, frozenset((key, value) for key, value in labels if key != "le")


def the_binary_shows_the_series_of_the_cases():
    """From the start on: a counter that first appears as 1 has not increased. A histogram of calls,
    whose quantiles are looked at for minutes, appears with its first one."""
    at_start, later = shown_by_the_binary()
    given = {name for case in CASES for name in case[1] if name != "up"}
    calls = {name for name in given if name.startswith(CALLS.partition("{")[0])}
    missing = {name for name in given - calls if parsed(f"{name} 0") not in at_start}
    missing |= {name for name in calls if parsed(f"{name} 0") not in later}
    assert calls and not missing, missing


def checks():
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    for where in WHERE:
        for rule in rules:
            alert = rule["alert"]
            name = f"alerts: {where}: {alert} fires and does not fire"
            yield name, lambda where=where, alert=alert: fires_and_does_not_fire(where, alert)
    for check in [
        another_release_does_not_hide_that_one_is_gone,
        another_release_s_series_fire_nothing,
        pods_of_long_releases_are_found,
        a_rule_that_cannot_fire_is_found,
        promtool_takes_the_files,
        the_binary_shows_the_series_of_the_cases,
    ]:
        yield f"alerts: {check.__name__}", check
