//! `lockkeeper why` with real coordinators on a real Redis: who really is waited for.

use std::process::Stdio;

use crate::prelude::*;
use crate::telemetry::http::get;

/// What `lockkeeper ARGUMENTS` prints.
async fn said(coordinator: &Coordinator, arguments: &str) -> String {
    let words: Vec<_> = arguments.split(' ').collect();
    let output = lockkeeper(coordinator, &words).output().await.unwrap();
    assert!(output.status.success(), "{arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// `lockkeeper ARGUMENTS` that goes on; it ends with what is returned, and so does its command if
/// that reads its input.
fn started(coordinator: &Coordinator, arguments: &str) -> Child {
    let words: Vec<_> = arguments.split(' ').collect();
    let mut command = lockkeeper(coordinator, &words);
    command.stdin(Stdio::piped()).spawn().unwrap()
}

#[tokio::test]
async fn why_leads_from_a_lock_over_one_that_waits_to_the_holder_and_names_a_deadlock() {
    let settings = |url: &str| settings_on(url).with("admin.listen", "127.0.0.1:0");
    let (_redis, a, b) = two_coordinators(settings).await;
    let _deploys = started(
        &a,
        "run deploy --client-name pipeline --reason release -- cat",
    );
    eventually("it deploys", || async {
        !said(&a, "why deploy").await.contains("deploy is free")
    })
    .await;
    said(&b, "acquire build --owner ci-7 --lease 5m").await;
    let _waits = started(&b, "acquire deploy --owner ci-7 --wait 5m");
    let _last = started(&a, "run build -- true");
    eventually("the chain is seen from both coordinators", || async {
        let (here, there) = (said(&a, "why build").await, said(&b, "why build").await);
        [here, there].iter().all(|text| {
            let lines: Vec<_> = text.lines().collect();
            matches!(lines.as_slice(), [build, deploy]
                if build.starts_with("build is held by ci-7, lease ")
                    && build.contains("; it has waited for deploy for ")
                    && deploy.starts_with("deploy is held by ")
                    && deploy.contains("reason=\"release\""))
        })
    })
    .await;
    assert!(said(&a, "why build").await.contains("pipeline (session "));

    said(&a, "acquire red --owner x --lease 5m").await;
    said(&b, "acquire blue --owner y --lease 5m").await;
    let _first = started(&a, "acquire blue --owner x --wait 5m");
    let _second = started(&b, "acquire red --owner y --wait 5m");
    for coordinator in [&a, &b] {
        eventually("the deadlock is named", || async {
            let text = said(coordinator, "why red").await;
            let last = text.lines().last().unwrap_or_default();
            [
                "deadlock: x waits for blue; y waits for red",
                "deadlock: y waits for red; x waits for blue",
            ]
            .contains(&last)
        })
        .await;
    }
    let json = said(&a, "why blue --output json").await;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["deadlocks"][0]["waits"].as_array().unwrap().len(), 2);
    eventually("the metric says so", || async {
        let (_, page) = get(a.admin_address().await, "/metrics", "*/*").await;
        page.contains("lockkeeper_deadlocks 1\n")
    })
    .await;
}
