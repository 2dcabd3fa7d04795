//! The store as a coordinator sees it: everything goes over its link.

use std::future::pending;

use async_trait::async_trait;
use futures::future::BoxFuture;
use lockkeeper_store::host::{
    Acks, Call, Commands, HostError, Numbers, Replication, ScriptHost, Value,
};
use tokio::time::Instant;

use super::link::{FaultyHost, Work};

// === impl FaultyHost ===

#[async_trait]
impl ScriptHost for FaultyHost {
    async fn eval(&self, call: Call) -> Result<Value, HostError> {
        let spot = self.0.spot(&call);
        tokio::select! {
            biased;
            () = self.0.0.cut.cancelled() => pending().await,
            answer = self.0.call(spot, |to| Work::Script(call, to)) => answer,
        }
    }

    fn runs_commands(&self) -> bool {
        true
    }

    fn run<'a>(
        &'a self,
        commands: &'a Commands<'a>,
        _begun: Instant,
    ) -> BoxFuture<'a, Result<Numbers, HostError>> {
        let (spot, own) = (self.0.spot_of(commands), commands.clone().into_owned());
        Box::pin(async move {
            tokio::select! {
                biased;
                () = self.0.0.cut.cancelled() => pending().await,
                answer = self.0.call(spot, |to| Work::Commands(own, to)) => answer,
            }
        })
    }

    async fn eval_replicated(
        &self,
        call: Call,
        replication: Replication,
    ) -> Result<(Value, Option<Acks>), HostError> {
        let spot = self.0.spot(&call);
        let value = self.eval(call).await?;
        if !(replication.wanted_if)(&value) {
            return Ok((value, None));
        }
        let acks = self.0.replicas(&spot, replication.replicas);
        tokio::select! {
            biased;
            () = self.0.0.cut.cancelled() => pending().await,
            acks = acks => Ok((value, Some(acks))),
        }
    }

    async fn subscribe(&self, channel: &str) -> Result<(), HostError> {
        tokio::select! {
            biased;
            () = self.0.0.cut.cancelled() => pending().await,
            done = self.0.subscribe(channel) => done,
        }
    }

    fn unsubscribe(&self, channel: &str) {
        if self.0.0.wanted.lock().remove(channel) {
            self.0.0.host.unsubscribe(channel);
        }
    }
}
