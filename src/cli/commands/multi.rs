//! Commands about several locks at once.

use lockkeeper_api::pb::{
    AcquireAllRequest, AcquireAllResponse, Grant, LockSpec, ReleaseAllRequest, ReleasedLock,
    TryAcquireAllRequest, acquire_all_response::Event,
};

use super::{
    again::wait,
    ended::{Ended, changed, changing, code},
    lock::not_granted,
};
use crate::{
    args::{HoldAllArgs, ReleaseAllArgs, TryArgs, WaitArgs},
    client::{connect, short},
    exit,
    failure::{Effect, Failure},
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
        wait_timeout: None,
        request_id: grant.request.id_or_new(),
        min_replica_acks: grant.min_replica_acks,
        note: note.to_proto(),
        end_on_deadlock: false,
    };
    let open = async |wait_timeout| {
        let request = AcquireAllRequest {
            wait_timeout,
            ..request.clone()
        };
        let mut client = connect(&args.common.server).await?;
        let events = client.acquire_all(request).await.map_err(changing)?;
        Ok(events.into_inner())
    };
    let format = args.common.output;
    let show = |answer: AcquireAllResponse| {
        let (text, code) = match &answer.event {
            Some(Event::Granted(all)) => {
                let text = granted(&all.grants);
                changed(format, &text, ("AcquireAllResponse", &answer))?;
                return Ok(Some(exit::OK));
            }
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
    let ended = wait(args.wait, Effect::Changes, open, show).await;
    ended.map_err(|it: Failure| it.of_request(&request.owner, &request.request_id))
}

pub(crate) async fn try_acquire_all(args: TryArgs<HoldAllArgs>) -> Ended {
    let HoldAllArgs { locks, grant, note } = args.hold;
    let request = TryAcquireAllRequest {
        locks: locks.specs(),
        session_id: String::new(),
        owner: grant.owner,
        lease: grant.lease,
        request_id: grant.request.id_or_new(),
        min_replica_acks: grant.min_replica_acks,
        note: note.to_proto(),
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.try_acquire_all(short(request.clone())).await;
    let with_ids = |it: Failure| it.of_request(&request.owner, &request.request_id);
    let answer = answer.map_err(|it| with_ids(changing(it)))?.into_inner();
    let format = args.common.output;
    if answer.acquired {
        let printed = changed(
            format,
            &granted(&answer.grants),
            ("TryAcquireAllResponse", &answer),
        );
        printed.map_err(with_ids)?;
        return Ok(exit::OK);
    }
    let holder = words::holder(
        answer.holder_remaining_lease.as_ref(),
        answer.holder_note.as_ref(),
    );
    let text = format!("not granted: {} is held, {holder}", answer.busy_name);
    format.answer(&text, "TryAcquireAllResponse", &answer)?;
    Ok(exit::NOT_GRANTED)
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
    changed(format, &lines.join("\n"), ("ReleaseAllResponse", &answer))?;
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
