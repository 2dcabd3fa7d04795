//! Clients that mean no harm and send much at once.

use crate::prelude::*;

/// A burst of calls fills the queues of one connection before any of them is looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_calls_as_may_be_under_way_can_come_at_once() {
    const CALLS: usize = 10_000;
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let client = coordinator.client().await;
    let calls = (0..CALLS).map(|number| {
        let mut api = client.api.clone();
        async move {
            let request = try_request(&format!("name-{number}"), "somebody");
            api.try_acquire(request)
                .await
                .map(|tried| tried.into_inner().acquired)
        }
    });
    for acquired in join_all(calls).await {
        assert!(acquired.expect("the connection stays"));
    }
}
