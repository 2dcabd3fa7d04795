//! `lockkeeper bench` against real coordinators, and against one that breaks its promises.

use std::process::{Output, Stdio};

use deadpool_redis::redis::Value as RedisValue;
use serde_json::Value;
use tokio::process::Command;

use crate::prelude::*;
use crate::{cli::eventually, fake::Fake, redis_server};

/// Long enough for some operations on a busy machine.
const BRIEFLY: [&str; 4] = ["--warm-up", "100ms", "--duration", "400ms"];

/// What makes a run of each scenario small.
const SCENARIOS: [&str; 7] = [
    "uncontended --in-flight 12",
    "handover --in-flight 12",
    "fair --in-flight 12",
    "read-mostly --in-flight 12 --names 3",
    "waiters --waiters 50",
    "watch --names 40 --sessions 5 --lease 3s",
    "churn --names 30 --in-flight 5",
];

fn bench(server: &str, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command
        .args(["bench", "--server", server, "--output", "json"])
        .args(arguments.split(' '))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

#[track_caller]
fn json(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "one object on one line: {text}");
    serde_json::from_str(&text).unwrap()
}

/// The figures of a run that went well.
async fn measure(server: &str, arguments: &str) -> Value {
    let output = bench(server, arguments).args(BRIEFLY).output().await;
    json(&output.unwrap(), 0)
}

fn number(json: &Value) -> f64 {
    json.as_f64().unwrap_or_else(|| panic!("no number: {json}"))
}

/// What every run has, and what must fit together in it.
#[track_caller]
fn assert_consistent(json: &Value, arguments: &str) {
    let scenario = arguments.split(' ').next().unwrap();
    assert_eq!(json["scenario"], scenario);
    assert_eq!(json["void"], false, "{json}");
    // A resume may take more than one attempt.
    assert!(json["errors"] == 0 || scenario == "resume", "{json}");
    for never in ["overlaps", "token_regressions", "lost"] {
        assert_eq!(json["witness"][never], 0, "{json}");
    }
    let (operations, seconds) = (number(&json["operations"]), number(&json["duration_s"]));
    let per_second = number(&json["operations_per_second"]);
    // The duration is rounded to a millisecond.
    assert!(
        (per_second * seconds - operations).abs() <= operations * 0.05 + 1.0,
        "{json}"
    );
    for (what, figures) in json["latency_us"].as_object().unwrap() {
        let at = |name: &str| number(&figures[name]);
        let rising = [at("p50"), at("p90"), at("p99"), at("p999"), at("max")];
        assert!(at("count") > 0.0 && at("p50") > 0.0, "{what}: {json}");
        assert!(rising.is_sorted(), "{what}: {json}");
        assert!(at("mean") <= at("max"), "{what}: {json}");
    }
    assert_scenario(json, scenario);
}

/// What a run of one scenario has.
#[track_caller]
fn assert_scenario(json: &Value, scenario: &str) {
    let (operations, seconds) = (number(&json["operations"]), number(&json["duration_s"]));
    let count = |what: &str| number(&json["latency_us"][what]["count"]);
    let grants = number(&json["witness"]["grants"]);
    match scenario {
        "uncontended" => {
            assert!(operations > 0.0, "{json}");
            assert!(
                (count("try_acquire") + count("release") - operations).abs() < 0.5,
                "{json}"
            );
            let pairs = number(&json["per_second"]["pairs"]) * seconds;
            assert!(
                (count("pair") - pairs).abs() <= pairs * 0.05 + 1.0,
                "{json}"
            );
            assert!(grants >= count("try_acquire"), "{json}");
        }
        "handover" | "fair" => {
            assert!(number(&json["per_second"]["handovers"]) > 0.0, "{json}");
            let each = count("wait") + count("release");
            assert!((each - operations).abs() < 0.5, "{json}");
            assert!(
                count("gap") > 0.0 && count("gap") <= count("wait"),
                "{json}"
            );
            let waiters = &json["grants_per_waiter"];
            let (fewest, most) = (number(&waiters["fewest"]), number(&waiters["most"]));
            assert!(
                fewest <= count("wait") / 12.0 && count("wait") / 12.0 <= most,
                "{json}"
            );
        }
        "read-mostly" => {
            let waits = count("read_wait")
                + json["latency_us"]["write_wait"]["count"]
                    .as_f64()
                    .unwrap_or(0.0);
            assert!(
                (waits + count("release") - operations).abs() < 0.5,
                "{json}"
            );
        }
        "waiters" => {
            assert_eq!(json["waiters"], 50, "{json}");
            assert!(number(&json["established_s"]) > 0.0, "{json}");
            // That of the one for whom they wait, and that of the one who came after all had gone.
            assert_eq!(json["witness"]["grants"], 2, "{json}");
        }
        "watch" => {
            assert_eq!(json["witness"]["grants"], 40, "{json}");
            let least = number(&json["least_remaining_lease"]);
            assert!(least > 0.0 && least <= 1.0, "{json}");
        }
        "churn" => {
            assert_eq!(json["operations"], 30, "{json}");
            assert!((count("session") - 30.0).abs() < 0.5, "{json}");
            assert!(number(&json["per_second"]["sessions"]) > 0.0, "{json}");
        }
        "resume" => {
            assert_eq!(
                (&json["sessions"], &json["resumed"]),
                (&30.into(), &30.into())
            );
            assert!((count("resume") - 30.0).abs() < 0.5, "{json}");
            assert!(number(&json["resumed_s"]) > 0.0, "{json}");
        }
        other => panic!("{other}"),
    }
}

/// The locks of benchmarks that somebody holds.
async fn held(redis: &RedisServer) -> RedisValue {
    redis.command(&["KEYS", "bench-*"]).await
}

async fn measure_every_scenario(server: &str) {
    for arguments in SCENARIOS {
        for (transport, flag) in [("rpc", ""), ("frames", " --frames")] {
            let json = measure(server, &format!("{arguments}{flag}")).await;
            assert_consistent(&json, arguments);
            // A session is a stream, whatever else is asked for.
            let only_frames = ["watch", "churn"]
                .iter()
                .any(|it| arguments.starts_with(it));
            let expected = if only_frames { "frames" } else { transport };
            assert_eq!(json["transport"], expected);
        }
    }
}

#[tokio::test]
async fn every_scenario_is_measured_on_the_embedded_store() {
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    measure_every_scenario(&coordinator.url()).await;
}

#[tokio::test]
async fn every_scenario_is_measured_on_redis_and_leaves_no_lock_behind() {
    let redis = RedisServer::start().await;
    let coordinator = Coordinator::start(&Settings::on(&redis.url())).await;
    measure_every_scenario(&coordinator.url()).await;
    assert_eq!(held(&redis).await, RedisValue::Array(Vec::new()));
}

/// A coordinator is killed as soon as all sessions of a run hold their locks.
async fn kill_beneath(coordinator: &Coordinator, arguments: &str) -> Output {
    let mut run = bench(&coordinator.url(), arguments).spawn().unwrap();
    let mut said = BufReader::new(run.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("all sessions hold their locks") {
        line.clear();
        assert_ne!(said.read_line(&mut line).await.unwrap(), 0, "it ended");
    }
    coordinator.kill();
    let mut output = run.wait_with_output().await.unwrap();
    said.read_to_end(&mut output.stderr).await.unwrap();
    output
}

#[tokio::test]
async fn sessions_are_resumed_by_another_coordinator_and_all_keep_their_grants() {
    let redis = RedisServer::start().await;
    let settings =
        Settings::on(&redis.url()).with("session.secret", "a secret of all the coordinators here");
    let first = Coordinator::start(&settings).await;
    let second = Coordinator::start(&settings).await;
    let resume_on = second.url();
    let arguments = format!("resume --sessions 30 --duration 6s --resume-on {resume_on}");
    let json = json(&kill_beneath(&first, &arguments).await, 0);
    assert_consistent(&json, &arguments);
    assert_eq!(held(&redis).await, RedisValue::Array(Vec::new()));
}

#[tokio::test]
async fn sessions_that_are_not_resumed_make_the_run_void() {
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let arguments = "resume --sessions 3 --duration 500ms";
    let json = assert_void(&kill_beneath(&coordinator, arguments).await);
    let because = json["void_because"].to_string();
    assert!(
        because.contains("3 of 3 sessions were not resumed"),
        "{json}"
    );
}

#[tokio::test]
async fn a_fixed_rate_is_kept_and_a_backlog_is_told() {
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let server = coordinator.url();
    for transport in ["", " --frames"] {
        let json = measure(&server, &format!("uncontended --rate 200{transport}")).await;
        assert_eq!(json["rate"], 200.0);
        // In 400 ms, a pair being two operations.
        assert_eq!(json["latency_us"]["pair"]["count"], 40, "{json}");
        let too_fast = format!("uncontended --rate 1000000 --in-flight 1{transport}");
        let json = measure(&server, &too_fast).await;
        let (backlog, pairs) = (number(&json["backlog"]), &json["latency_us"]["pair"]);
        assert!(backlog > 100_000.0, "{json}");
        assert_eq!(
            pairs["count"], 200_000,
            "those of the backlog included: {json}"
        );
        // What was due when the measurement began had to wait for what the warm-up left.
        assert!(number(&pairs["p50"]) > 100_000.0, "{json}");
    }
}

#[tokio::test]
async fn a_signal_ends_a_run_which_gives_back_what_it_has() {
    let redis = RedisServer::start().await;
    let coordinator = Coordinator::start(&Settings::on(&redis.url())).await;
    let long = "--duration 1h --warm-up 0s";
    for arguments in SCENARIOS
        .into_iter()
        .chain(["handover --frames", "waiters --frames"])
    {
        let arguments = arguments.replace("churn --names 30", "churn --names 1000000");
        let run = bench(&coordinator.url(), &format!("{arguments} {long}"))
            .spawn()
            .unwrap();
        let id = Pid::from_raw(run.id().unwrap().try_into().unwrap());
        redis_server::eventually("something is held", || async {
            held(&redis).await != RedisValue::Array(Vec::new())
        })
        .await;
        kill(id, Signal::SIGINT).unwrap();
        let json = json(&run.wait_with_output().await.unwrap(), 130);
        assert_eq!(
            (&json["interrupted"], &json["void"]),
            (&true.into(), &false.into())
        );
        assert_eq!(
            held(&redis).await,
            RedisValue::Array(Vec::new()),
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn a_refusal_is_counted_and_not_a_fault() {
    let settings = Settings::on("embedded:").with("limits.waiters_per_lock_max", "3");
    let coordinator = Coordinator::start(&settings).await;
    for transport in ["", " --frames"] {
        let arguments = format!("handover --in-flight 12{transport}");
        let json = measure(&coordinator.url(), &arguments).await;
        assert_eq!(json["void"], false);
        assert!(
            number(&json["refusals"]["WAITERS_PER_LOCK_MAX"]) > 0.0,
            "{json}"
        );
        assert_eq!(json["errors"], json["refusals"]["WAITERS_PER_LOCK_MAX"]);
    }
}

#[tokio::test]
async fn what_cannot_be_measured_is_said() {
    for (arguments, code) in [
        ("uncontended", 69),
        ("waiters --rate 5", 64),
        ("resume --rate 5", 64),
        ("uncontended --rate 0", 64),
        ("uncontended --in-flight 0", 64),
        ("nothing", 64),
    ] {
        let output = bench("http://127.0.0.1:1", arguments)
            .output()
            .await
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments}: {output:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{output:?}"
        );
    }
}

// === a coordinator that says what a test wants ===

fn fake() -> Fake {
    Fake::start(Duration::from_secs(30))
}

fn bench_on(fake: &Fake, arguments: &str) -> std::process::Command {
    let mut command = bench(&format!("http://{}", fake.address), arguments).into_std();
    command.args(BRIEFLY);
    command
}

#[track_caller]
fn assert_void(output: &Output) -> Value {
    let json = json(output, 65);
    assert_eq!(json["void"], true);
    for figure in [
        "operations",
        "operations_per_second",
        "per_second",
        "latency_us",
    ] {
        assert_eq!(json[figure], Value::Null, "{json}");
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("this run is void"), "{said}");
    json
}

#[test]
fn a_coordinator_that_grants_twice_makes_the_run_void() {
    let fake = fake();
    fake.set(|it| it.tokens_grow = true);
    for transport in ["", " --frames"] {
        let output = bench_on(&fake, &format!("handover{transport}")).output();
        let json = assert_void(&output.unwrap());
        assert!(number(&json["witness"]["overlaps"]) > 0.0, "{json}");
    }
}

#[test]
fn a_token_that_comes_twice_makes_the_run_void() {
    let fake = fake();
    for transport in ["", " --frames"] {
        let arguments = format!("uncontended --in-flight 2{transport}");
        let json = assert_void(&bench_on(&fake, &arguments).output().unwrap());
        let regressions = &json["witness"]["token_regressions"];
        assert!(number(regressions) > 0.0, "{json}");
        assert_eq!(json["witness"]["overlaps"], 0, "{json}");
    }
}

#[test]
fn a_lost_grant_makes_the_run_void() {
    let fake = fake();
    let run = bench_on(&fake, "watch --names 1 --sessions 1").spawn();
    eventually("it is held", || fake.has_seen("try_acquire"));
    fake.tell_lost();
    let json = assert_void(&run.unwrap().wait_with_output().unwrap());
    assert_eq!(json["witness"]["lost"], 1, "{json}");
}

/// Each later look at the lock finds it lost, too.
#[tokio::test]
async fn a_lost_lock_is_counted_once() {
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let server = coordinator.url();
    let arguments = "watch --names 1 --sessions 1 --warm-up 0s --duration 4s";
    let run = bench(&server, arguments).spawn().unwrap();
    let ask = async |words: &[&str]| {
        let output = lockkeeper(&coordinator, words).output().await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let held = || async { !ask(&["list", "--output", "json"]).await.is_empty() };
    redis_server::eventually("it holds its lock", held).await;
    let listed = ask(&["list", "--output", "json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let name = listed["name"].as_str().unwrap();
    let force = ["force-release", name, "--reason", "test", "--yes"];
    ask(&[&force[..], &["--grace-period", "0"]].concat()).await;
    let json = assert_void(&run.wait_with_output().await.unwrap());
    assert_eq!(json["witness"]["lost"], 1, "{json}");
}

#[test]
fn what_should_never_fail_makes_the_run_void() {
    let fake = fake();
    fake.set(|it| it.is_busy = true);
    let json = assert_void(&bench_on(&fake, "uncontended").output().unwrap());
    let why = json["void_because"].to_string();
    assert!(why.contains("was not to be had"), "{why}");
}
