//! Locks that are acquired and released, again and again.

use std::sync::Arc;

use futures::future::try_join_all;
use lockkeeper_cli::{client::Client, failure::Failure};

use super::{
    calls,
    conduct::{Interrupts, Played, conduct},
    frames,
    plan::Plan,
    session::{Session, not_opened},
    stage::Stage,
};

pub(super) async fn play(
    plan: Plan,
    mut clients: Vec<Client>,
    interrupts: &mut Interrupts,
) -> Result<Played, Failure> {
    let (stage, tasks) = if plan.frames {
        let lease = plan.lease;
        let sessions = clients.iter_mut().map(|it| Session::open(it, lease));
        let sessions = try_join_all(sessions).await.map_err(not_opened)?;
        let stage = Arc::new(Stage::new(plan));
        let tasks = frames::start(&stage, sessions);
        (stage, tasks)
    } else {
        let stage = Arc::new(Stage::new(plan));
        let tasks = calls::start(&stage, &clients);
        (stage, tasks)
    };
    conduct(&stage, tasks, interrupts).await
}
