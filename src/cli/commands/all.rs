//! Commands about several locks at once.

use lockkeeper_api::pb::{
    AcquireAllRequest, Grant, LockSpec, ReleaseAllRequest, ReleasedLock, TryAcquireAllRequest,
    acquire_all_response::Event,
};

use super::{Ended, changing, refusal};
use crate::args::to_proto;
use crate::{
    args::{AcquireAllArgs, ReleaseAllArgs, TryAcquireAllArgs},
    client::{connect, short},
    exit,
    failure::Failure,
    json, output,
};

pub(crate) async fn acquire_all(args: AcquireAllArgs) -> Ended {
    let (common, hold) = (args.common, args.hold);
    let locks = hold.locks.specs();
    let names = names(&locks);
    let request = AcquireAllRequest {
        locks,
        session_id: String::new(),
        owner: hold.owner.unwrap_or_default(),
        lease: hold.lease.map(to_proto).transpose()?,
        wait_timeout: args.wait.map(to_proto).transpose()?,
        request_id: hold.request_id.unwrap_or_default(),
        min_replica_acks: hold.min_replica_acks,
    };
    let mut client = connect(&common.server).await?;
    let mut events = client
        .acquire_all(request)
        .await
        .map_err(changing)?
        .into_inner();
    while let Some(event) = events
        .message()
        .await
        .map_err(changing)?
        .and_then(|answer| answer.event)
    {
        match event {
            Event::Waiting(told) => {
                let waiting = told.waiting.unwrap_or_default();
                output::say(&output::waiting(&told.name, &waiting));
            }
            Event::Granted(all) => {
                let text = granted(&all.grants);
                common.output.data(&text, &json::granted_all(&all))?;
                return Ok(exit::OK);
            }
            Event::NotGranted(ended) => return refusal(common.output, &names, &ended),
        }
    }
    Err(Failure::local(
        exit::OUTCOME_UNKNOWN,
        "the coordinator ended the wait without an answer",
    ))
}

pub(crate) async fn try_acquire_all(args: TryAcquireAllArgs) -> Ended {
    let (common, hold) = (args.common, args.hold);
    let request = TryAcquireAllRequest {
        locks: hold.locks.specs(),
        session_id: String::new(),
        owner: hold.owner.unwrap_or_default(),
        lease: hold.lease.map(to_proto).transpose()?,
        request_id: hold.request_id.unwrap_or_default(),
        min_replica_acks: hold.min_replica_acks,
    };
    let mut client = connect(&common.server).await?;
    let answer = client
        .try_acquire_all(short(request))
        .await
        .map_err(changing)?
        .into_inner();
    let text = if answer.acquired {
        granted(&answer.grants)
    } else {
        let holder = output::holder(answer.holder_remaining_lease.as_ref());
        format!("not granted: {} is held, {holder}", answer.busy_name)
    };
    common.output.data(&text, &json::tried_all(&answer))?;
    Ok(if answer.acquired {
        exit::OK
    } else {
        exit::NOT_GRANTED
    })
}

pub(crate) async fn release_all(args: ReleaseAllArgs) -> Ended {
    let request = ReleaseAllRequest {
        locks: args.locks.specs(),
        session_id: String::new(),
        owner: args.owner,
        request_id: args.request_id.unwrap_or_default(),
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client
        .release_all(short(request))
        .await
        .map_err(changing)?
        .into_inner();
    let lines: Vec<String> = answer.locks.iter().map(released).collect();
    let json = json::released_all(&answer);
    args.common.output.data(&lines.join("\n"), &json)?;
    let all_were_held = answer.locks.iter().all(|lock| lock.held);
    Ok(if all_were_held {
        exit::OK
    } else {
        exit::NOT_GRANTED
    })
}

fn names(locks: &[LockSpec]) -> String {
    let names: Vec<&str> = locks.iter().map(|lock| lock.name.as_str()).collect();
    names.join(", ")
}

fn granted(grants: &[Grant]) -> String {
    let lines = grants.iter().map(output::grant);
    let lines: Vec<String> = lines.map(|grant| format!("granted {grant}")).collect();
    lines.join("\n")
}

fn released(lock: &ReleasedLock) -> String {
    let name = &lock.name;
    match (lock.held, lock.hold_count) {
        (false, _) => format!("not held {name}"),
        (true, 0) => format!("released {name}"),
        (true, left) => format!("still held {name} hold_count={left}"),
    }
}
