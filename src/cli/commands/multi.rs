//! Commands about several locks at once.

use lockkeeper_api::pb::{
    AcquireAllRequest, AcquireAllResponse, Grant, LockSpec, ReleaseAllRequest, ReleasedLock,
    TryAcquireAllRequest, acquire_all_response::Event,
};

use super::{
    ended::{Ended, changing, code, wait},
    lock::not_granted,
};
use crate::{
    args::{HoldAllArgs, ReleaseAllArgs, TryArgs, WaitArgs},
    client::{connect, short},
    exit,
    failure::Effect,
    output::{lock as words, say},
};

pub(crate) async fn acquire_all(args: WaitArgs<HoldAllArgs>) -> Ended {
    let HoldAllArgs { locks, grant, note } = args.hold;
    let locks = locks.specs();
    let names = names(&locks);
    let request = AcquireAllRequest {
        locks,
        session_id: String::new(),
        owner: grant.owner,
        lease: grant.lease,
        wait_timeout: args.wait,
        request_id: grant.request.request_id,
        min_replica_acks: grant.min_replica_acks,
        note: note.to_proto(),
        end_on_deadlock: false,
    };
    let mut client = connect(&args.common.server).await?;
    let events = client.acquire_all(request).await.map_err(changing)?;
    let format = args.common.output;
    let show = |answer: AcquireAllResponse| {
        let (text, code) = match &answer.event {
            Some(Event::Granted(all)) => (granted(&all.grants), exit::OK),
            Some(Event::NotGranted(ended)) => (not_granted(&names, ended), exit::NOT_GRANTED),
            Some(Event::Waiting(event)) => {
                let waiting = event.waiting.clone().unwrap_or_default();
                say(&words::waiting(&event.name, &waiting));
                return Ok(None);
            }
            None => return Ok(None),
        };
        format.answer(&text, "AcquireAllResponse", &answer)?;
        Ok(Some(code))
    };
    wait(events.into_inner(), Effect::Changes, show).await
}

pub(crate) async fn try_acquire_all(args: TryArgs<HoldAllArgs>) -> Ended {
    let HoldAllArgs { locks, grant, note } = args.hold;
    let request = TryAcquireAllRequest {
        locks: locks.specs(),
        session_id: String::new(),
        owner: grant.owner,
        lease: grant.lease,
        request_id: grant.request.request_id,
        min_replica_acks: grant.min_replica_acks,
        note: note.to_proto(),
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.try_acquire_all(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let text = if answer.acquired {
        granted(&answer.grants)
    } else {
        let holder = words::holder(
            answer.holder_remaining_lease.as_ref(),
            answer.holder_note.as_ref(),
        );
        format!("not granted: {} is held, {holder}", answer.busy_name)
    };
    let format = args.common.output;
    format.answer(&text, "TryAcquireAllResponse", &answer)?;
    code(answer.acquired)
}

pub(crate) async fn release_all(args: ReleaseAllArgs) -> Ended {
    let request = ReleaseAllRequest {
        locks: args.locks.specs(),
        session_id: String::new(),
        owner: args.owner,
        request_id: args.request.request_id,
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.release_all(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let lines: Vec<String> = answer.locks.iter().map(released).collect();
    let format = args.common.output;
    format.answer(&lines.join("\n"), "ReleaseAllResponse", &answer)?;
    code(answer.locks.iter().all(|lock| lock.held))
}

fn names(locks: &[LockSpec]) -> String {
    let names: Vec<&str> = locks.iter().map(|lock| lock.name.as_str()).collect();
    names.join(", ")
}

fn granted(grants: &[Grant]) -> String {
    let lines = grants.iter().map(words::grant);
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
