//! Commands about one lock.

use lockkeeper_api::pb::{
    AcquireRequest, AcquireResponse, AwaitFreeRequest, AwaitFreeResponse, CheckTokenRequest,
    DescribeRequest, ExplainRequest, NotGranted, ReleaseRequest, RenewRequest, TryAcquireRequest,
    acquire_response::Event, await_free_response::Event as FreeEvent,
};

use super::{
    again::wait,
    ended::{Ended, changed, changing, code, reading},
};
use crate::{
    args::{
        CheckTokenArgs, HoldArgs, LockArgs, NameArgs, ReleaseArgs, RenewArgs, TryArgs, WaitArgs,
    },
    client::{connect, short},
    exit,
    failure::{Effect, Failure},
    output::{lock as words, say, wait_ended, why},
};

pub(crate) async fn acquire(args: WaitArgs<HoldArgs>) -> Ended {
    let HoldArgs {
        name,
        mode,
        hold_at_least,
        lock_delay,
        grant,
        note,
    } = args.hold;
    let request = AcquireRequest {
        name: name.clone(),
        mode: mode.to_proto().into(),
        session_id: String::new(),
        owner: grant.owner,
        lease: grant.lease,
        wait_timeout: None,
        request_id: grant.request.id_or_new(),
        min_replica_acks: grant.min_replica_acks,
        note: note.to_proto(),
        hold_at_least,
        lock_delay,
        end_on_deadlock: false,
        preferred: false,
    };
    let open = async |wait_timeout| {
        let request = AcquireRequest {
            wait_timeout,
            ..request.clone()
        };
        let mut client = connect(&args.common.server).await?;
        let events = client.acquire(request).await.map_err(changing)?;
        Ok(events.into_inner())
    };
    let format = args.common.output;
    let show = |answer: AcquireResponse| {
        let (text, code) = match &answer.event {
            Some(Event::Granted(grant)) => {
                let text = format!("granted {}", words::grant(grant));
                changed(format, &text, ("AcquireResponse", &answer))?;
                return Ok(Some(exit::OK));
            }
            Some(Event::NotGranted(ended)) => (not_granted(&name, ended), exit::NOT_GRANTED),
            Some(Event::Waiting(waiting)) => {
                say(&words::waiting(&name, waiting));
                return Ok(None);
            }
            None => return Ok(None),
        };
        format.answer(&text, "AcquireResponse", &answer)?;
        Ok(Some(code))
    };
    let ended = wait(args.wait, Effect::Changes, open, show).await;
    ended.map_err(|it: Failure| it.of_request(&request.owner, &request.request_id))
}

pub(crate) async fn try_acquire(args: TryArgs<HoldArgs>) -> Ended {
    let HoldArgs {
        name,
        mode,
        hold_at_least,
        lock_delay,
        grant,
        note,
    } = args.hold;
    let request = TryAcquireRequest {
        name: name.clone(),
        mode: mode.to_proto().into(),
        session_id: String::new(),
        owner: grant.owner,
        lease: grant.lease,
        request_id: grant.request.id_or_new(),
        min_replica_acks: grant.min_replica_acks,
        note: note.to_proto(),
        hold_at_least,
        lock_delay,
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.try_acquire(short(request.clone())).await;
    let with_ids = |it: Failure| it.of_request(&request.owner, &request.request_id);
    let answer = answer.map_err(|it| with_ids(changing(it)))?.into_inner();
    let format = args.common.output;
    let text = match &answer.grant {
        Some(grant) if answer.acquired => {
            let text = format!("granted {}", words::grant(grant));
            let printed = changed(format, &text, ("TryAcquireResponse", &answer));
            printed.map_err(with_ids)?;
            return Ok(exit::OK);
        }
        _ => {
            let holder = words::holder(
                answer.holder_remaining_lease.as_ref(),
                answer.holder_note.as_ref(),
            );
            format!("not granted {name}: {holder}")
        }
    };
    format.answer(&text, "TryAcquireResponse", &answer)?;
    code(answer.acquired)
}

pub(crate) async fn await_free(args: WaitArgs<LockArgs>) -> Ended {
    let name = args.hold.name;
    let request = AwaitFreeRequest {
        name: name.clone(),
        session_id: String::new(),
        wait_timeout: None,
    };
    let open = async |wait_timeout| {
        let request = AwaitFreeRequest {
            wait_timeout,
            ..request.clone()
        };
        let mut client = connect(&args.common.server).await?;
        let events = client.await_free(request).await.map_err(reading)?;
        Ok(events.into_inner())
    };
    let format = args.common.output;
    let show = |answer: AwaitFreeResponse| {
        let (text, code) = match &answer.event {
            Some(FreeEvent::Free(free)) => (words::free(&name, *free), exit::OK),
            Some(FreeEvent::NotFree(ended)) => (not_free(&name, ended), exit::NOT_GRANTED),
            Some(FreeEvent::Waiting(waiting)) => {
                say(&words::waiting(&name, waiting));
                return Ok(None);
            }
            None => return Ok(None),
        };
        format.answer(&text, "AwaitFreeResponse", &answer)?;
        Ok(Some(code))
    };
    wait(args.wait, Effect::Reads, open, show).await
}

pub(crate) async fn release(args: ReleaseArgs) -> Ended {
    let name = args.held.name;
    let request = ReleaseRequest {
        name: name.clone(),
        session_id: String::new(),
        owner: args.held.owner,
        request_id: args.request.request_id,
        mode: args.held.mode.to_proto().into(),
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.release(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let text = if answer.released {
        format!("released {name}")
    } else {
        format!("still held {name} hold_count={}", answer.hold_count)
    };
    let format = args.common.output;
    changed(format, &text, ("ReleaseResponse", &answer))?;
    Ok(exit::OK)
}

pub(crate) async fn renew(args: RenewArgs) -> Ended {
    let request = RenewRequest {
        name: args.held.name,
        session_id: String::new(),
        owner: args.held.owner,
        lease: args.lease,
        mode: args.held.mode.to_proto().into(),
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.renew(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let grant = answer.grant.as_ref().map(words::grant).unwrap_or_default();
    let format = args.common.output;
    changed(
        format,
        &format!("renewed {grant}"),
        ("RenewResponse", &answer),
    )?;
    Ok(exit::OK)
}

pub(crate) async fn describe(args: NameArgs) -> Ended {
    let request = DescribeRequest { name: args.name };
    let mut client = connect(&args.common.server).await?;
    let answer = client.describe(short(request)).await;
    let answer = answer.map_err(reading)?.into_inner();
    let format = args.common.output;
    format.answer(&words::description(&answer), "DescribeResponse", &answer)?;
    Ok(exit::OK)
}

pub(crate) async fn why(args: NameArgs) -> Ended {
    let request = ExplainRequest { name: args.name };
    let mut client = connect(&args.common.server).await?;
    let answer = client.explain(short(request)).await;
    let answer = answer.map_err(reading)?.into_inner();
    let format = args.common.output;
    format.answer(&why::chain(&answer), "ExplainResponse", &answer)?;
    Ok(exit::OK)
}

pub(crate) async fn check_token(args: CheckTokenArgs) -> Ended {
    let request = CheckTokenRequest {
        name: args.name.clone(),
        fencing_token: args.token,
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.check_token(short(request)).await;
    let answer = answer.map_err(reading)?.into_inner();
    let word = if answer.current {
        "current"
    } else {
        "outdated"
    };
    let (name, last, held) = (args.name, answer.last_fencing_token, answer.held);
    let text = format!("{word} {name} last_fencing_token={last} held={held}");
    let format = args.common.output;
    format.answer(&text, "CheckTokenResponse", &answer)?;
    code(answer.current)
}

/// The end of a wait without a grant, in words.
pub(super) fn not_granted(names: &str, ended: &NotGranted) -> String {
    format!("not granted {names}: {}", why_ended(ended))
}

fn not_free(name: &str, ended: &NotGranted) -> String {
    format!("not free {name}: {}", why_ended(ended))
}

fn why_ended(ended: &NotGranted) -> String {
    let why = wait_ended(ended.reason());
    let holder = words::holder(
        ended.holder_remaining_lease.as_ref(),
        ended.holder_note.as_ref(),
    );
    format!("{why}, {holder}")
}
