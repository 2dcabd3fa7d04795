//! The binary as it comes, on its embedded store.

use lockkeeper_api::pb::{self, acquire_response::Event, session_response::Response};
use lockkeeper_testkit::prelude::*;
use tokio::time::Instant;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::{
    client::acquire_request,
    coordinator::{Coordinator, Settings},
    steps::{judged_by_time, lockkeeper, millis, secs, since, until_waiting},
};

async fn start() -> Coordinator {
    Coordinator::start(&Settings::on("embedded:")).await
}

#[tokio::test]
async fn a_client_takes_waits_for_and_gives_back_a_lock() {
    let coordinator = start().await;
    let mut client = coordinator.client().await;
    let tried = client.try_acquire("build", "a", secs(30)).await.unwrap();
    let first = tried.grant.unwrap();
    assert!(tried.acquired && first.fencing_token > 0);
    let refused = client.try_acquire("build", "b", secs(30)).await.unwrap();
    assert!(!refused.acquired && refused.holder_remaining_lease.is_some());

    let mut wait = client.acquire(acquire_request("build", "b")).await.unwrap();
    assert_eq!(wait.expect_waiting().await.position, 1);
    let seen = client.describe("build").await;
    assert_eq!((seen.holders.len(), seen.waiters.len()), (1, 1));
    assert_eq!(seen.last_fencing_token, first.fencing_token);
    assert!(client.release("build", "a").await.unwrap().released);
    let Ok(Event::Granted(second)) = wait.end().await else {
        panic!("not granted");
    };
    assert!(second.fencing_token > first.fencing_token);
    assert!(client.release("build", "b").await.unwrap().released);
    assert!(client.describe("build").await.holders.is_empty());
}

#[tokio::test]
async fn the_command_line_is_such_a_client() {
    let coordinator = start().await;
    let ask = async |arguments: &[&str]| {
        let output = lockkeeper(&coordinator, arguments).output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code().unwrap(), text)
    };
    let (code, text) = ask(&["try-acquire", "build", "--owner", "a", "--output", "json"]).await;
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &json["acquired"]), (0, &true.into()), "{text}");
    assert_eq!(ask(&["try-acquire", "build", "--owner", "b"]).await.0, 1);
    let (_, text) = ask(&["describe", "build"]).await;
    assert!(text.starts_with("held build"), "{text}");
    assert_eq!(ask(&["release", "build", "--owner", "b"]).await.0, 1);

    let acquire = ["acquire", "build", "--owner", "b", "--wait", "60s"];
    let waiting = lockkeeper(&coordinator, &acquire).spawn().unwrap();
    until_waiting(&coordinator.client().await, "build", 1).await;
    let (code, text) = ask(&["release", "build", "--owner", "a"]).await;
    assert_eq!((code, text.as_str()), (0, "released build\n"));
    let output = waiting.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        output
            .stdout
            .starts_with(b"granted build mode=exclusive owner=b"),
        "{output:?}"
    );
    assert_eq!(ask(&["renew", "build", "--owner", "b"]).await.0, 0);
    assert_eq!(ask(&["release", "build", "--owner", "b"]).await.0, 0);
    let run = [
        "run",
        "build",
        "--",
        "sh",
        "-c",
        "echo $LOCKKEEPER_LOCK; exit 7",
    ];
    assert_eq!(ask(&run).await, (7, "build\n".to_owned()));
}

#[tokio::test]
async fn a_grant_does_not_wait_for_the_acknowledgement_of_the_frame_before_it() {
    judged_by_time(async || {
        const HAND_OVERS: usize = 21;
        let coordinator = start().await;
        let mut holder = coordinator.client().await.open().await;
        let mut waiter = coordinator.client().await.open().await;
        let mut times = Vec::new();
        for _ in 0..HAND_OVERS {
            holder.acquire("build").await;
            let op_id = waiter.send_acquire("build", "");
            assert!(matches!(waiter.answer(op_id).await, Response::Waiting(_)));
            let released = Instant::now();
            holder.send_release("build", "");
            waiter.expect_granted(op_id).await;
            times.push(since(released));
            waiter.release("build").await;
        }
        times.sort();
        // Kernels hold acknowledgements back for 40 ms.
        times[HAND_OVERS / 2].must_be_below(millis(25), "hand-over on one coordinator");
    })
    .await;
}

#[tokio::test]
async fn health_and_reflection_answer() {
    let coordinator = start().await;
    let channel = coordinator.client().await.channel();
    let services = [
        "lockkeeper.v1.LockService",
        "lockkeeper.v1.SemaphoreService",
        "lockkeeper.v1.LatchService",
        "lockkeeper.v1.ElectionService",
    ];
    for service in services.into_iter().chain([""]) {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        let answer = HealthClient::new(channel.clone())
            .check(request)
            .await
            .unwrap();
        assert_eq!(
            answer.into_inner().status(),
            ServingStatus::Serving,
            "{service}"
        );
    }
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = ServerReflectionClient::new(channel)
        .server_reflection_info(tokio_stream::once(request))
        .await
        .unwrap()
        .into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(listed)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let names: Vec<_> = listed.service.iter().map(|it| it.name.as_str()).collect();
    for name in services.into_iter().chain(["grpc.health.v1.Health"]) {
        assert!(names.contains(&name), "{names:?}");
    }
}

#[tokio::test]
async fn the_settings_that_result_are_printed() {
    let coordinator = start().await;
    let print = ["serve", "--print-config", "--set", "session.lease=9s"];
    let mut command = lockkeeper(&coordinator, &print);
    command.env(
        "LOCKKEEPER__SESSION__SECRET",
        "not to be shown to anybody, ever so long",
    );
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("not to be shown"), "{text}");
    let printed: toml::Table = text.parse().unwrap();
    assert_eq!(printed["session"]["lease"].as_str(), Some("9s"));
    assert_eq!(printed["store"]["url"].as_str(), Some("embedded:"));
}

#[tokio::test]
async fn a_session_ends_with_its_stream_and_frees_what_it_held() {
    let coordinator = start().await;
    let mut client = coordinator.client().await;
    let mut session = client.open().await;
    let grant = session.acquire("build").await;
    assert!(grant.watched);
    let mut other = client.open().await;
    let op_id = other.send(pb::session_request::Request::TryAcquire(
        pb::TryAcquireRequest::named("build"),
    ));
    let pb::session_response::Response::Tried(tried) = other.end(op_id).await else {
        panic!("not tried");
    };
    assert!(!tried.acquired);
    session.close().await.unwrap();
    assert!(other.acquire("build").await.fencing_token > grant.fencing_token);
    other.half_close().await.unwrap();
    assert!(client.describe("build").await.holders.is_empty());
}
