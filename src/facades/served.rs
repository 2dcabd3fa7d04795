//! Which facades are served.

use std::time::Duration;

use axum::{
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use tonic::{Code, Status, body::Body, service::Routes};

use crate::{Door, dapr, etcd, terraform};

/// Which facades are served; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facades {
    /// The calls of Dapr's distributed lock.
    pub dapr: bool,
    /// etcd's leases, locks and elections.
    pub etcd: bool,
    /// The locks of Terraform's http backend, with this lease.
    pub terraform: Option<Duration>,
}

// === impl Facades ===

impl Facades {
    /// The services. What they keep in memory belongs to this coordinator. A call of another system
    /// that is not served is refused with the reason.
    pub fn routes(self, door: &Door, message_bytes_max: usize) -> Routes {
        let mut routes = Routes::default();
        if self.dapr {
            routes = dapr::add(routes, door, message_bytes_max);
        }
        if self.etcd {
            routes = etcd::add(routes, door, message_bytes_max);
        }
        if let Some(lease) = self.terraform {
            routes = terraform::add(routes, door, lease, message_bytes_max);
        }
        let explained = from_fn_with_state(self, explained);
        Routes::from(routes.into_axum_router().layer(explained))
    }

    /// Why a method is not served, if it is one of another system.
    fn refusal(self, path: &str) -> Option<String> {
        let has = |packages: &[&str]| packages.iter().any(|it| path.starts_with(it));
        let (setting, is_on, served) = if has(&["/etcdserverpb.", "/v3lockpb.", "/v3electionpb."]) {
            let served = "leases, and the services Lock and Election";
            ("facades.etcd", self.etcd, served)
        } else if has(&["/dapr."]) {
            let served = "TryLockAlpha1 and UnlockAlpha1";
            ("facades.dapr", self.dapr, served)
        } else {
            return None;
        };
        Some(if is_on {
            format!("{path} is not served: of that system, {setting} serves only {served}")
        } else {
            format!("{path} is not served: {setting} is off")
        })
    }
}

/// Adds the reason to a refusal that the router or a service makes of a method that it does not
/// have.
async fn explained(State(facades): State<Facades>, request: Request, next: Next) -> Response {
    let refusal = facades.refusal(request.uri().path());
    let answer = next.run(request).await;
    match (refusal, Status::from_header_map(answer.headers())) {
        (Some(why), Some(status))
            if status.code() == Code::Unimplemented && status.message().is_empty() =>
        {
            Status::unimplemented(why)
                .into_http::<Body>()
                .map(axum::body::Body::new)
        }
        _ => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_setting_and_what_it_serves() {
        let facades = Facades {
            etcd: true,
            ..Facades::default()
        };
        let refusal = |path: &str| facades.refusal(path).unwrap();
        let served = refusal("/etcdserverpb.KV/Range");
        assert!(
            served.contains("facades.etcd serves only leases"),
            "{served}"
        );
        let off = refusal("/dapr.proto.runtime.v1.Dapr/GetState");
        assert!(off.ends_with("facades.dapr is off"), "{off}");
        assert_eq!(facades.refusal("/lockkeeper.v1.LockService/Acquire"), None);
    }
}
