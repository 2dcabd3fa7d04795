//! Commands about semaphores.

use lockkeeper_api::pb::{
    AcquirePermitsRequest, AcquirePermitsResponse, DescribeSemaphoreRequest, ReleasePermitsRequest,
    RenewPermitsRequest, SetPermitsRequest, TryAcquirePermitsRequest,
    acquire_permits_response::Event,
};

use super::ended::{Ended, changing, code, reading, wait};
use crate::{
    args::{
        HoldPermitsArgs, NameArgs, ReleasePermitsArgs, RenewPermitsArgs, SemaphoreCommand,
        SetPermitsArgs, TryArgs, WaitArgs,
    },
    client::{connect_semaphores as connect, short},
    exit,
    failure::Effect,
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
    format.answer(&text, "SetPermitsResponse", &answer)?;
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
        wait_timeout: args.wait,
        request_id: grant.request.request_id,
        min_replica_acks: grant.min_replica_acks,
    };
    let mut client = connect(&args.common.server).await?;
    let events = client.acquire_permits(request).await.map_err(changing)?;
    let format = args.common.output;
    let show = |answer: AcquirePermitsResponse| {
        let (text, code) = match &answer.event {
            Some(Event::Granted(grant)) => (format!("granted {}", words::grant(grant)), exit::OK),
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
    wait(events.into_inner(), Effect::Changes, show).await
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
        request_id: grant.request.request_id,
        min_replica_acks: grant.min_replica_acks,
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.try_acquire_permits(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let granted = answer.grant.as_ref().filter(|_| answer.acquired);
    let text = match granted {
        Some(grant) => format!("granted {}", words::grant(grant)),
        None => format!("not granted {name}: available={}", answer.available),
    };
    let format = args.common.output;
    format.answer(&text, "TryAcquirePermitsResponse", &answer)?;
    code(granted.is_some())
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
    format.answer(&text, "ReleasePermitsResponse", &answer)?;
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
    format.answer(&lines.join("\n"), "RenewPermitsResponse", &answer)?;
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
