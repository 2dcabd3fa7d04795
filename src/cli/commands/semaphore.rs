//! Commands about semaphores.

use lockkeeper_api::pb::{
    AcquirePermitsRequest, AcquirePermitsResponse, DescribeSemaphoreRequest, ReleasePermitsRequest,
    RenewPermitsRequest, SetPermitsRequest, TryAcquirePermitsRequest,
    acquire_permits_response::Event,
};

use super::{
    again::wait,
    ended::{Ended, changed, changing, reading},
};
use crate::{
    args::{
        HoldPermitsArgs, NameArgs, ReleasePermitsArgs, RenewPermitsArgs, SemaphoreCommand,
        SetPermitsArgs, TryArgs, WaitArgs,
    },
    client::{connect_semaphores as connect, short},
    exit,
    failure::{Effect, Failure},
    output::{permits as words, say, wait_ended},
};

pub(crate) async fn semaphore(command: SemaphoreCommand) -> Ended {
    match command {
        SemaphoreCommand::Set(args) => set(args).await,
        SemaphoreCommand::Acquire(args) => acquire(args).await,
        SemaphoreCommand::TryAcquire(args) => try_acquire(args).await,
        SemaphoreCommand::Release(args) => release(args).await,
        SemaphoreCommand::Renew(args) => renew(args).await,
        SemaphoreCommand::Describe(args) => describe(args).await,
    }
}

async fn set(args: SetPermitsArgs) -> Ended {
    let request = SetPermitsRequest {
        name: args.name.clone(),
        permits: args.permits,
        only_if_absent: args.only_if_absent,
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.set_permits(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let word = if answer.created { "created" } else { "set" };
    let (name, total, available) = (args.name, answer.total, answer.available);
    let text = format!("{word} {name} total={total} available={available}");
    let format = args.common.output;
    changed(format, &text, ("SetPermitsResponse", &answer))?;
    Ok(exit::OK)
}

async fn acquire(args: WaitArgs<HoldPermitsArgs>) -> Ended {
    let HoldPermitsArgs {
        name,
        permits,
        grant,
    } = args.hold;
    let request = AcquirePermitsRequest {
        name: name.clone(),
        session_id: String::new(),
        owner: grant.owner,
        permits,
        lease: grant.lease,
        wait_timeout: None,
        request_id: grant.request.id_or_new(),
        min_replica_acks: grant.min_replica_acks,
    };
    let open = async |wait_timeout| {
        let request = AcquirePermitsRequest {
            wait_timeout,
            ..request.clone()
        };
        let mut client = connect(&args.common.server).await?;
        let events = client.acquire_permits(request).await.map_err(changing)?;
        Ok(events.into_inner())
    };
    let format = args.common.output;
    let show = |answer: AcquirePermitsResponse| {
        let (text, code) = match &answer.event {
            Some(Event::Granted(grant)) => {
                let text = format!("granted {}", words::grant(grant));
                changed(format, &text, ("AcquirePermitsResponse", &answer))?;
                return Ok(Some(exit::OK));
            }
            Some(Event::NotGranted(ended)) => {
                let (why, available) = (wait_ended(ended.reason()), ended.available);
                let text = format!("not granted {name}: {why}, available={available}");
                (text, exit::NOT_GRANTED)
            }
            Some(Event::Waiting(waiting)) => {
                say(&words::waiting(&name, waiting));
                return Ok(None);
            }
            None => return Ok(None),
        };
        format.answer(&text, "AcquirePermitsResponse", &answer)?;
        Ok(Some(code))
    };
    let ended = wait(args.wait, Effect::Changes, open, show).await;
    ended.map_err(|it: Failure| it.of_request(&request.owner, &request.request_id))
}

async fn try_acquire(args: TryArgs<HoldPermitsArgs>) -> Ended {
    let HoldPermitsArgs {
        name,
        permits,
        grant,
    } = args.hold;
    let request = TryAcquirePermitsRequest {
        name: name.clone(),
        session_id: String::new(),
        owner: grant.owner,
        permits,
        lease: grant.lease,
        request_id: grant.request.id_or_new(),
        min_replica_acks: grant.min_replica_acks,
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.try_acquire_permits(short(request.clone())).await;
    let with_ids = |it: Failure| it.of_request(&request.owner, &request.request_id);
    let answer = answer.map_err(|it| with_ids(changing(it)))?.into_inner();
    let format = args.common.output;
    if let Some(grant) = answer.grant.as_ref().filter(|_| answer.acquired) {
        let text = format!("granted {}", words::grant(grant));
        let printed = changed(format, &text, ("TryAcquirePermitsResponse", &answer));
        printed.map_err(with_ids)?;
        return Ok(exit::OK);
    }
    let text = format!("not granted {name}: available={}", answer.available);
    format.answer(&text, "TryAcquirePermitsResponse", &answer)?;
    Ok(exit::NOT_GRANTED)
}

async fn release(args: ReleasePermitsArgs) -> Ended {
    let request = ReleasePermitsRequest {
        name: args.name.clone(),
        session_id: String::new(),
        owner: args.owner,
        permit_ids: args.permit,
        request_id: args.request.request_id,
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.release_permits(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let (name, released, available) = (args.name, answer.released, answer.available);
    let text = format!("released {name} permits={released} available={available}");
    let format = args.common.output;
    changed(format, &text, ("ReleasePermitsResponse", &answer))?;
    Ok(exit::OK)
}

async fn renew(args: RenewPermitsArgs) -> Ended {
    let request = RenewPermitsRequest {
        name: args.name,
        session_id: String::new(),
        owner: args.owner,
        permit_ids: args.permit,
        lease: args.lease,
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.renew_permits(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let lines = answer.grants.iter().map(words::grant);
    let lines: Vec<String> = lines.map(|grant| format!("renewed {grant}")).collect();
    let format = args.common.output;
    changed(format, &lines.join("\n"), ("RenewPermitsResponse", &answer))?;
    Ok(exit::OK)
}

async fn describe(args: NameArgs) -> Ended {
    let request = DescribeSemaphoreRequest { name: args.name };
    let mut client = connect(&args.common.server).await?;
    let answer = client.describe_semaphore(short(request)).await;
    let answer = answer.map_err(reading)?.into_inner();
    let (text, format) = (words::description(&answer), args.common.output);
    format.answer(&text, "DescribeSemaphoreResponse", &answer)?;
    Ok(exit::OK)
}
