//! Waiters that keep waiting: what they cost, and that they leave nothing behind.

mod crowd;

use std::{sync::Arc, time::Duration};

use futures::future::try_join_all;
use lockkeeper_api::pb::{
    DescribeRequest, LockMode, ReleaseRequest, TryAcquireRequest, session_request::Request,
    session_response::Response,
};
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_cli::{client::Client, failure::Failure};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use self::crowd::{Crowd, wait_by_calls, wait_by_frames};
use super::{
    conduct::{Interrupts, Played, conduct},
    plan::Plan,
    session::{Session, not_opened},
    stage::Stage,
};

/// How long it may take until no waiter is left and the lock can be acquired.
const FREE_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two checks of that.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

pub(super) async fn play(
    plan: Plan,
    mut clients: Vec<Client>,
    interrupts: &mut Interrupts,
) -> Result<Played, Failure> {
    let stage = Arc::new(Stage::open_ended(plan));
    let holder = Session::open(&mut clients[0], stage.plan.lease).await;
    let mut holder = holder.map_err(not_opened)?;
    if let Err(status) = hold(&stage, &mut holder).await {
        stage.tally(0).failed(&status);
        return Ok(Played::new(stage, None));
    }
    let asked_at = Instant::now();
    let crowd = Crowd::new(&stage);
    let tasks = if stage.plan.frames {
        let sessions = clients
            .iter_mut()
            .map(|it| Session::open(it, stage.plan.lease));
        let sessions = try_join_all(sessions).await.map_err(not_opened)?;
        wait_by_frames(&crowd, sessions)
    } else {
        wait_by_calls(&crowd, &clients)
    };
    let established = Arc::new(Mutex::new(None));
    let begins = {
        let (stage, crowd) = (Arc::clone(&stage), Arc::clone(&crowd));
        let established = Arc::clone(&established);
        spawn_detached("begin", async move {
            if crowd.all_settled().await {
                *established.lock() = Some(asked_at.elapsed());
                stage.timeline.begin_now(stage.plan.duration);
                stage.timeline.sleep_until_end().await;
            } else {
                let (waiting, all) = (crowd.waiting(), stage.plan.waiters);
                let why = format!("only {waiting} of {all} wait, and no more of them are answered");
                stage.tally(0).fault(why);
            }
            stage.stop.cancel();
        })
    };
    let mut played = conduct(&stage, tasks, interrupts).await?;
    begins.abort();
    let stopped_at = Instant::now();
    let last = clients.len() - 1;
    let freed = free(&stage, holder, &mut clients[last]).await;
    if let Err(status) = freed {
        stage.tally(0).failed(&status);
    }
    let established = *established.lock();
    played.extra = vec![
        ("waiters", json!(crowd.waiting())),
        (
            "established_s",
            json!(established.map(|it| it.as_secs_f64())),
        ),
        ("freed_s", json!(stopped_at.elapsed().as_secs_f64())),
    ];
    Ok(played)
}

/// Acquires the lock for which all the waiters wait.
async fn hold(stage: &Stage, holder: &mut Session) -> Result<(), Status> {
    let lock = &stage.locks[0];
    let request = TryAcquireRequest {
        name: lock.name.clone(),
        owner: "holder".to_owned(),
        ..TryAcquireRequest::default()
    };
    holder.collect(1, Request::TryAcquire(request));
    holder.send();
    let answer = holder.next().await.transpose()?;
    match answer.and_then(|frame| frame.response) {
        Some(Response::Tried(answer)) if answer.acquired => {
            let token = answer.grant.unwrap_or_default().fencing_token;
            lock.witness.enter(LockMode::Exclusive, token, &stage.seen);
            Ok(())
        }
        other => Err(Status::internal(format!("{other:?} in place of a grant"))),
    }
}

/// Checks that no waiter is left, and that the lock can be acquired once it is released.
async fn free(stage: &Stage, holder: Session, client: &mut Client) -> Result<(), Status> {
    let lock = &stage.locks[0];
    let deadline = Instant::now() + FREE_TIMEOUT;
    loop {
        let name = lock.name.clone();
        match client.describe(DescribeRequest { name }).await {
            Ok(answer) if answer.get_ref().waiter_count == 0 => break,
            // A server without `Describe` has no waiters to report.
            Err(status) if status.code() == Code::Unimplemented => break,
            Err(status) => return Err(status),
            Ok(answer) if Instant::now() > deadline => {
                let count = answer.get_ref().waiter_count;
                return Err(Status::internal(format!(
                    "{count} waiters are left, though all have gone"
                )));
            }
            Ok(_) => sleep(LOOK_INTERVAL).await,
        }
    }
    lock.witness
        .leave(LockMode::Exclusive, stage.timeline.now());
    holder.close().await?;
    loop {
        let request = TryAcquireRequest {
            name: lock.name.clone(),
            lease: stage.plan.lease,
            ..TryAcquireRequest::default()
        };
        let answer = client.try_acquire(request).await?.into_inner();
        if let Some(grant) = answer.grant.filter(|_| answer.acquired) {
            lock.witness
                .enter(LockMode::Exclusive, grant.fencing_token, &stage.seen);
            lock.witness
                .leave(LockMode::Exclusive, stage.timeline.now());
            let request = ReleaseRequest {
                name: grant.name,
                owner: grant.owner,
                ..ReleaseRequest::default()
            };
            return client.release(request).await.map(drop);
        }
        if Instant::now() > deadline {
            return Err(Status::internal(
                "nobody can have the lock, though all have gone",
            ));
        }
        sleep(LOOK_INTERVAL).await;
    }
}
