//! The dashboard and the alerts: every metric that they ask for is documented, and so (a test of
//! the binary compares) is shown; every alert says what to do.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{expect_none, source::text};

const PAGE: &str = "docs/metrics.md";
const DASHBOARD: &str = "deploy/grafana/lockkeeper.json";
const RULES: &str = "deploy/prometheus/rules.yaml";
const ROWS: [&str; 7] = [
    "Overview",
    "Latency",
    "Safety",
    "Store",
    "gRPC",
    "Process",
    "Names by prefix",
];

/// What Prometheus itself makes.
const OF_PROMETHEUS: [&str; 1] = ["up"];

/// Beginnings of names of metrics.
const BEGINNINGS: [&str; 3] = ["lockkeeper_", "grpc_server_", "process_"];

/// Names in the first column of the page's tables.
fn documented(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.filter_map(|row| row.split('`').next());
    names
        .filter(|name| BEGINNINGS.iter().any(|it| name.starts_with(it)))
        .map(str::to_owned)
        .collect()
}

/// Names of metrics in a query.
fn asked_for(query: &str) -> BTreeSet<String> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let words = query.split(|letter: char| !is_name(letter));
    words
        .filter(|word| BEGINNINGS.iter().any(|it| word.starts_with(it)))
        .map(str::to_owned)
        .collect()
}

fn is_documented(name: &str, documented: &BTreeSet<String>) -> bool {
    let part_of_histogram = ["_bucket", "_sum", "_count"];
    let whole = part_of_histogram
        .iter()
        .find_map(|part| name.strip_suffix(part));
    documented.contains(name) || whole.is_some_and(|whole| documented.contains(whole))
}

fn unknown(query: &str, documented: &BTreeSet<String>) -> Vec<String> {
    let asked = asked_for(query);
    let mut problems: Vec<_> = asked
        .iter()
        .filter(|name| !is_documented(name, documented))
        .map(|name| format!("{name} is not in {PAGE}: {query}"))
        .collect();
    let of_prometheus = |name: &&str| query.contains(&format!("{name}{{"));
    if asked.is_empty() && !OF_PROMETHEUS.iter().any(of_prometheus) {
        problems.push(format!("asks for no metric: {query}"));
    }
    problems
}

/// The reasons for which a lost lease is nobody's trouble, in a query.
fn excused(query: &str) -> Option<&str> {
    let lost = query.split_once("lockkeeper_leases_lost_total{")?.1;
    let selector = lost.split_once('}')?.0;
    let reasons = selector.split_once("reason!~\"")?.1;
    Some(reasons.split_once('"')?.0)
}

#[test]
fn the_dashboard_and_the_alert_excuse_the_same_losses() {
    let dashboard: Value = serde_json::from_str(&text(DASHBOARD)).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|it| it["targets"].as_array());
    let queries = targets.flatten().filter_map(|it| it["expr"].as_str());
    let shown: Vec<_> = queries.filter_map(excused).collect();
    let rules = text(RULES);
    let alerted: Vec<_> = rules.lines().filter_map(excused).collect();
    assert_eq!(alerted.len(), 1);
    assert_eq!(shown, alerted);
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    let dashboard: Value = serde_json::from_str(&text(DASHBOARD)).unwrap();
    let documented = documented(&text(PAGE));
    assert!(dashboard["schemaVersion"].as_u64() >= Some(39));
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["DS_PROMETHEUS", "job", "instance"]);
    let panels = dashboard["panels"].as_array().unwrap();
    let rows = panels.iter().filter(|panel| panel["type"] == "row");
    let rows: Vec<_> = rows.map(|row| row["title"].as_str().unwrap()).collect();
    assert_eq!(rows, ROWS);
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = panel["title"].as_str().unwrap();
        if panel["datasource"]["uid"] != "${DS_PROMETHEUS}" {
            problems.push(format!("{title}: another data source"));
        }
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title} asks for nothing");
        for target in targets {
            let query = target["expr"].as_str().unwrap();
            seen.extend(asked_for(query));
            problems.extend(unknown(query, &documented));
            if !query.contains("job=~\"$job\"") || !query.contains("instance=~\"$instance\"") {
                problems.push(format!("{title}: does not follow the variables: {query}"));
            }
        }
    }
    expect_none(&problems);
    let of_ours = documented
        .iter()
        .filter(|name| name.starts_with("lockkeeper_"));
    let shown = |name: &&String| seen.iter().any(|it| it.starts_with(name.as_str()));
    let missing: Vec<_> = of_ours.filter(|name| !shown(name)).cloned().collect();
    let left_out = ["lockkeeper_draining", "lockkeeper_releases_total"];
    assert_eq!(missing, left_out, "metrics that no panel shows");
}

#[test]
fn the_alerts_ask_for_what_there_is_and_say_what_to_do() {
    let rules: Value = serde_saphyr::from_str(&text(RULES)).unwrap();
    let documented = documented(&text(PAGE));
    let mut problems = Vec::new();
    let groups = rules["groups"].as_array().unwrap();
    for rule in groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap())
    {
        let name = rule["alert"].as_str().unwrap();
        let query = rule["expr"].as_str().unwrap();
        problems.extend(unknown(query, &documented));
        let severity = rule["labels"]["severity"].as_str();
        if !matches!(severity, Some("critical" | "warning")) {
            problems.push(format!("{name}: has no severity"));
        }
        let (page, anchor) = rule["annotations"]["runbook"]
            .as_str()
            .and_then(|url| url.split_once('#'))
            .unwrap_or_default();
        let says = page == "docs/operating.md"
            && anchor == name.to_lowercase()
            && text(page).contains(&format!("\n## {name}\n"));
        if !says {
            problems.push(format!("{name}: nothing says what to do"));
        }
    }
    expect_none(&problems);
}

#[test]
fn a_metric_that_there_is_not_is_found() {
    let documented = documented(
        "| `lockkeeper_a_total` | x |\n| `lockkeeper_b_seconds` | x |\n| `log.level` | x |\n",
    );
    assert_eq!(documented.len(), 2);
    let found = |query: &str| unknown(query, &documented).len();
    assert_eq!(found("rate(lockkeeper_a_total{mode=\"x\"}[5m])"), 0);
    assert_eq!(
        found("histogram_quantile(0.9, lockkeeper_b_seconds_bucket)"),
        0
    );
    assert_eq!(found("sum(up{job=\"x\"})"), 0);
    assert_eq!(found("lockkeeper_a"), 1);
    assert_eq!(found("lockkeeper_c_seconds_bucket + lockkeeper_a_total"), 1);
    assert_eq!(found("1 + 1"), 1);
}
