//! Watches of a tenant.

use lockkeeper_api::pb::{self, lock_admin_service_client::LockAdminServiceClient};

use super::Did;
use crate::{scene::Who, target::Target, time::secs};

/// As many as all may have together.
const WATCHERS: usize = 64;

fn watch(prefix: &str) -> pb::WatchRequest {
    pb::WatchRequest {
        prefix: prefix.to_owned(),
        fleet: false,
    }
}

/// A tenant watches its prefix 64 times and reads nothing, while much happens there. The operator
/// watches too.
pub(crate) async fn of_one_tenant(target: Target) -> Did {
    let client = target.client(Who::Tenant).await;
    let mut watches = Vec::new();
    for _ in 0..WATCHERS {
        let mut admin = LockAdminServiceClient::new(client.caller());
        watches.extend(admin.watch(watch("tenant/")).await.ok());
    }
    let operator = target.client(Who::Operator).await;
    let mut admin = LockAdminServiceClient::new(operator.caller());
    let operators = admin.watch(watch("")).await;
    let mut operators = operators.map_err(|why| format!("the operator cannot watch: {why}"))?;
    let told = operators.get_mut().message().await;
    told.map_err(|why| format!("the operator's watch ended: {why}"))?;
    let pairs = target.storm(16, |task| {
        let mut client = client.clone();
        async move {
            let name = format!("tenant/{task}");
            let tried = client.try_acquire(&name, "t", secs(10)).await;
            client.release(&name, "t").await.is_ok() && tried.is_ok()
        }
    });
    let pairs = pairs.await;
    let open = watches.len();
    Ok(format!("{open} of {WATCHERS} watches; locks: {pairs}"))
}
