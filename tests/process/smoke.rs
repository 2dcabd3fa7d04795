//! The binary as it comes, on its embedded store.

use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::prelude::*;

async fn start() -> Coordinator {
    Coordinator::start(&Settings::on("embedded:")).await
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
            let op_id = waiter.waits_for("build", "").await;
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
        "lockkeeper.v1.LockAdminService",
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
async fn health_knows_the_services_of_facades_that_are_on() {
    const OF_FACADES: [&str; 4] = [
        "etcdserverpb.Lease",
        "v3lockpb.Lock",
        "v3electionpb.Election",
        "dapr.proto.runtime.v1.Dapr",
    ];
    for is_on in [true, false] {
        let on = is_on.to_string();
        let settings = Settings::on("embedded:").with("facades.etcd", &on);
        let coordinator = Coordinator::start(&settings.with("facades.dapr", &on)).await;
        let channel = coordinator.client().await.channel();
        for service in OF_FACADES {
            let request = HealthCheckRequest {
                service: service.to_owned(),
            };
            let answer = HealthClient::new(channel.clone()).check(request).await;
            let expected = is_on.then_some(ServingStatus::Serving);
            let found = answer.ok().map(|it| it.into_inner().status());
            assert_eq!(found, expected, "{service}");
        }
    }
}
