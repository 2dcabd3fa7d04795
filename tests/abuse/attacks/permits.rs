//! A tenant with many permits.

use lockkeeper_api::pb::{self, semaphore_service_client::SemaphoreServiceClient};
use tokio::time::sleep;

use super::Did;
use crate::{
    client::Caller,
    prelude::*,
    scene::Who,
    target::Target,
    time::{millis, secs},
};

/// The permits of one request, the most that it may have.
const EACH: u32 = 1000;

/// Takes permits of a semaphore that has enough, until it is refused. Returns how many.
async fn taken(
    client: &mut SemaphoreServiceClient<Caller>,
    name: &str,
    count: usize,
    lease: std::time::Duration,
) -> u32 {
    let set = pb::SetPermitsRequest::named(name).permits(1_000_000);
    let _ = client.set_permits(set).await;
    let mut taken = 0;
    for number in 0..count.div_ceil(EACH as usize) {
        let request = pb::TryAcquirePermitsRequest::named(name)
            .by(number.to_string())
            .permits(EACH)
            .lasting(lease);
        match client.try_acquire_permits(request).await {
            Ok(tried) if tried.get_ref().acquired => taken += EACH,
            _ => break,
        }
    }
    taken
}

/// As many permits of one semaphore as the limits allow, and four tasks that describe it.
pub(crate) async fn described(target: Target) -> Did {
    let name = "tenant/permits";
    let client = target.client(Who::Tenant).await;
    let mut semaphores = SemaphoreServiceClient::new(client.caller());
    let count = target.form.size(100_000);
    let taken = taken(&mut semaphores, name, count, secs(60)).await;
    let described = target.storm(4, |_| {
        let mut semaphores = semaphores.clone();
        let name = name.to_owned();
        async move {
            let request = pb::DescribeSemaphoreRequest { name };
            semaphores.describe_semaphore(request).await.is_ok()
        }
    });
    let described = described.await;
    Ok(format!("{taken} permits; DescribeSemaphore: {described}"))
}

/// As many permits as the limits allow, all of which expire at once; the next call sweeps them.
pub(crate) async fn swept(target: Target) -> Did {
    const LEASE: std::time::Duration = secs(1);
    let client = target.client(Who::Tenant).await;
    let count = target.form.size(60_000);
    let rounds = target.storm(1, |_| {
        let mut semaphores = SemaphoreServiceClient::new(client.caller());
        async move {
            let name = "tenant/expiring";
            let taken = taken(&mut semaphores, name, count, LEASE).await;
            // They expire: nothing else can be waited for.
            sleep(LEASE + millis(50)).await;
            taken > 0
        }
    });
    Ok(format!("rounds of permits that expire: {}", rounds.await))
}
