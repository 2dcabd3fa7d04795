//! The document that people read, made from the results of a run.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    format::{goal, latency, met, processor_time, rate, ratio, spread, wrapped},
    measurements::{
        ALL, CROWD, CROWD_WARM_UP_SECONDS_MIN, Driver, JAVA_WARM_UP_SECONDS_MIN, Measurement,
        NATIVE, WATCH_SESSIONS,
    },
    reach::{ROWS, Row},
    results::{Machine, RATES, Results, rate_of},
    statistics::Spread,
};

/// Latencies, the most telling first.
const LATENCIES: [&str; 4] = ["try_acquire", "wait", "acquire", "session"];

const INTRODUCTION: &str = "\
# Performance

`make bench` writes this page; do not edit it. Everything that is compared runs on the same machine in the same run, in
turn, round after round. Compare **ratios**, not absolute figures.

A ratio is computed within each round. The tables show the median of the rounds and, in brackets, the smallest and the
largest.
";

const EXPLAINED: &str = "\
## What is compared

- **Bare** is a server with the same gRPC library and the same messages that does nothing but answer. The same client,
  `lockkeeper bench`, measures both, over 4 HTTP/2 connections, so both pay the cost of the client.
- **rslock** is a lock library for Rust on Redis without a service in between, over its one pipelined connection. Its
  lock is `SET NX PX`, and its unlock is a script with `GET` and `DEL`.
  With 256 in flight, the one thread of the coordinator is what limits it, so the ratio to rslock falls with the speed of
  the machine: earlier runs, on machines that were busy with other work, had 0.785 and 0.654.
- The **floor** is `1 / (1 / bare + 1 / rslock)`: both halves of the work, one after the other. The half of Redis is that
  of rslock, so a slow script of Lockkeeper does not lower the floor.
- **Native commands** is the coordinator with `store.native_commands = true`. Everywhere else it uses scripts, its
  default, as it always does for RPCs of owners without a session, which `lockkeeper bench` sends.
- **Redis 8** and **Valkey 9** are servers from PyPI's wheels. All other rows use the Redis of the machine.
- **etcd** is one member; its `Lock` and `Unlock` calls go over 4 connections, with a lease that each caller is granted
  once. It handed one lock over 640 times per second on a slow and on a fast machine, so the ratio to it grows with the
  speed of the machine.
- **Redisson** is the real one, with its default configuration, one thread for each contender.
- Each run against Lockkeeper has a witness: a lock with two holders, or a fencing token that does not grow, voids it.
- Client, servers and stores share the cores of the machine. The coordinator has threads for half of them, its default;
  the bare server for all, tokio's default; clients for half, the default of `lockkeeper bench`. In hand-overs of one lock
  clients have one thread, because only one caller at a time has work.

## Processor time

The last two columns of the figures are processor time for one of what the row counts: an operation, or a hand-over. A
pair is two operations.

- *Coordinator or server* is the process that the client calls: the coordinator, the bare server, or etcd.
- *Redis* is the Redis behind the coordinator, or the one that a library calls.
- The kernel counts the time of each thread. The share of a core is that of the time between 20 % and 90 % of the
  measurement. It is divided by the rate of the row.
- The time of the client is not part of it.

## Durability

Stores differ in what a crash loses, so each comparison says where both sides keep their locks:
*Redis without fsync* is a Redis that writes nothing to a disk (`--save \"\" --appendonly no`), *memory* is the embedded
store, which ends with its process, and *nothing kept* is the bare server, which has no locks at all. Etcd writes to a
tmpfs, where its fsync costs nothing.
";

/// What `make client-speed` and `make cost` have measured. It does not depend on this run, so it is
/// kept beside the code.
const INSTRUCTIONS: &str = include_str!("instructions.md");

/// The whole document.
pub(super) fn write(results: &Results) -> String {
    let mut text = INTRODUCTION.to_owned();
    reached(&mut text, results);
    text.push('\n');
    text.push_str(EXPLAINED);
    measured(&mut text, results);
    text.push_str(INSTRUCTIONS);
    settings(&mut text, results);
    machine(&mut text, &results.machine);
    text
}

fn reached(text: &mut String, results: &Results) {
    text.push_str("\n## Goals\n\n");
    text.push_str("| figure | ratio | goal | met | durability |\n|---|---|---|---|---|\n");
    for row in ROWS {
        let (ratio, met) = reached_row(row, results);
        let Row {
            figure, durability, ..
        } = row;
        let goal = goal(row.goal);
        let _ = writeln!(
            text,
            "| {figure} | {ratio} | {goal} | {met} | {durability} |"
        );
    }
    for (name, why) in &results.missing {
        let _ = writeln!(text, "\nNot measured: **{name}**, because {why}.");
    }
    for failure in results.failures() {
        let _ = writeln!(text, "\nFailed: {}", failure.replace('|', "\\|"));
    }
}

fn reached_row(row: &Row, results: &Results) -> (String, String) {
    let missing = row.needs.filter(|it| results.missing.contains_key(*it));
    if let Some(missing) = missing {
        return ("not measured".to_owned(), format!("{missing} is missing"));
    }
    let ratios: Vec<f64> = results.rounds.iter().filter_map(row.ratio).collect();
    let (count, all) = (ratios.len(), results.rounds.len());
    let Some(ratios) = Spread::of(ratios) else {
        return ("not measured".to_owned(), String::new());
    };
    let mut shown = spread(&ratios, ratio);
    if count < all {
        let _ = write!(shown, ", {count} of {all} rounds");
    }
    (shown, met(row.goal, ratios.median).to_owned())
}

fn measured(text: &mut String, results: &Results) {
    text.push_str("\n## Figures\n\n");
    text.push_str(
        "| what | on | in a second | latency of | p50 | p99 | coordinator or server, µs each | \
         Redis, µs each |\n|---|---|---|---|---|---|---|---|\n",
    );
    for measurement in ALL {
        if matches!(measurement.by, Driver::Watch | Driver::Blocked) {
            continue;
        }
        let found = RATES
            .iter()
            .find_map(|(pointer, unit)| Some((over_rounds(results, measurement, pointer)?, unit)));
        let Some((per_second, unit)) = found else {
            continue;
        };
        let of = LATENCIES.iter().find_map(|what| {
            let at = |quantile| {
                let pointer = format!("/latency_us/{what}/{quantile}");
                over_rounds(results, measurement, &pointer).map(|it| latency(it.median))
            };
            Some((*what, at("p50")?, at("p99")?))
        });
        let (of, p50, p99) = of.unwrap_or_default();
        let [server, redis] = ["/processor_us/server", "/processor_us/redis"].map(|pointer| {
            let used = over_rounds(results, measurement, pointer);
            used.map_or(String::new(), |used| processor_time(used.median))
        });
        let _ = writeln!(
            text,
            "| {} | {} | {} {unit} | {of} | {p50} | {p99} | {server} | {redis} |",
            measurement.what,
            measurement.durability(),
            spread(&per_second, rate),
        );
    }
    crowds(text, results);
}

/// What has no rate.
fn crowds(text: &mut String, results: &Results) {
    for measurement in ALL {
        let at = |pointer: &str| over_rounds(results, measurement, pointer);
        match measurement.by {
            Driver::Watch => {
                let shown = at("/watched/renewals").zip(at("/watched/seconds"));
                let least = at("/least_remaining_lease").zip(at("/watched/processor_share"));
                let (Some((renewals, seconds)), Some((least, share))) = (shown, least) else {
                    continue;
                };
                let sentence = format!(
                    "{} grants watched at once: {} renewals in {:.1} s, {:.1} % of one core, never less than {:.3} of a lease left.",
                    rate(float(results.options.watched_grants)),
                    rate(renewals.median),
                    seconds.median,
                    100.0 * share.median,
                    least.least,
                );
                let _ = writeln!(text, "\n{}", wrapped(&sentence));
            }
            Driver::Blocked => {
                let Some((bytes, seconds)) = at("/bytes_per_waiter").zip(at("/established_s"))
                else {
                    continue;
                };
                let sentence = format!(
                    "{} {}: {} bytes of resident memory each, all waiting after {:.1} s.",
                    rate(float(results.options.blocked_streams)),
                    measurement.what,
                    spread(&bytes, rate),
                    seconds.median,
                );
                let _ = writeln!(text, "\n{}", wrapped(&sentence));
            }
            Driver::Bench | Driver::Batch | Driver::Anchor | Driver::Redisson => {}
        }
    }
}

fn over_rounds(results: &Results, measurement: &Measurement, pointer: &str) -> Option<Spread> {
    let rounds = results.rounds.iter();
    Spread::of(rounds.filter_map(|round| round.number(measurement.name, pointer)))
}

fn settings(text: &mut String, results: &Results) {
    let options = &results.options;
    let sentence = format!(
        "Rounds: {}. Each measurement takes {} s after a warm-up of {} s, but with 10,000 waiters of at least {CROWD_WARM_UP_SECONDS_MIN} s and of \
         Redisson, which is compiled while it runs, of at least {JAVA_WARM_UP_SECONDS_MIN} s; {WATCH_SESSIONS} sessions hold the watched grants for \
         {} s. Every server is started anew for each measurement. The coordinator has its defaults, except:",
        results.rounds.len(),
        options.seconds,
        options.warm_up_seconds,
        options.watch_seconds,
    );
    let _ = writeln!(text, "\n## Settings\n\n{}\n", wrapped(&sentence));
    for (when, settings) in [
        ("with native commands", NATIVE),
        ("while streams are blocked", CROWD),
    ] {
        for (key, value) in settings {
            let _ = writeln!(text, "- `{key}` = {value}, {when}");
        }
    }
}

fn machine(text: &mut String, machine: &Machine) {
    let Machine {
        when,
        commit,
        processor,
        cores,
        memory,
        kernel,
        versions,
        ..
    } = machine;
    let sentence =
        format!("{when}, commit {commit}. {processor}, {cores} cores, {memory}, {kernel}.");
    let _ = writeln!(text, "\n## Machine\n\n{}\n", wrapped(&sentence));
    for (name, version) in versions {
        let _ = writeln!(text, "- {name}: {version}");
    }
}

/// One line of what a measurement printed.
pub(super) fn figures(printed: &Value) -> String {
    let number = |pointer: &str| printed.pointer(pointer).and_then(Value::as_f64);
    let mut parts = Vec::new();
    let per_second = rate_of(printed);
    parts.extend(per_second.map(|(number, unit)| format!("{} {unit}", rate(number))));
    for what in LATENCIES {
        let at = |quantile| number(&format!("/latency_us/{what}/{quantile}")).map(latency);
        if let (Some(p50), Some(p99)) = (at("p50"), at("p99")) {
            parts.push(format!("{what} p50 {p50}, p99 {p99}"));
            break;
        }
    }
    let extra = [
        ("commands_per_renewal", "/watched/commands_per_renewal"),
        ("processor_share", "/watched/processor_share"),
        ("least_remaining_lease", "/least_remaining_lease"),
        ("bytes_per_waiter", "/bytes_per_waiter"),
        ("processor_us.server", "/processor_us/server"),
        ("processor_us.redis", "/processor_us/redis"),
    ];
    for (name, pointer) in extra {
        parts.extend(number(pointer).map(|it| format!("{name} {}", ratio(it))));
    }
    parts.join("; ")
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
