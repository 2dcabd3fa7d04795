//! Commands about semaphores.

use lockkeeper_api::pb::{
    AcquirePermitsRequest, DescribeSemaphoreRequest, NotGrantedReason, ReleasePermitsRequest,
    RenewPermitsRequest, SetPermitsRequest, TryAcquirePermitsRequest,
    acquire_permits_response::Event,
};

use super::{Ended, changing, reading};
use crate::args::to_proto;
use crate::{
    args::{
        AcquirePermitsArgs, CounterArgs, ReleasePermitsArgs, RenewPermitsArgs, SemaphoreCommand,
        SetPermitsArgs, TryAcquirePermitsArgs,
    },
    client::{connect_semaphores as connect, short},
    exit,
    failure::Failure,
    json::permits as json,
    output::{self, permits as words},
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
    let text = format!(
        "{} {} total={} available={}",
        if answer.created { "created" } else { "set" },
        args.name,
        answer.total,
        answer.available
    );
    args.common.output.data(&text, &json::set(answer))?;
    Ok(exit::OK)
}

async fn acquire(args: AcquirePermitsArgs) -> Ended {
    let (common, hold) = (args.common, args.hold);
    let name = hold.name.clone();
    let request = AcquirePermitsRequest {
        name: hold.name,
        session_id: String::new(),
        owner: hold.owner.unwrap_or_default(),
        permits: hold.permits,
        lease: hold.lease.map(to_proto).transpose()?,
        wait_timeout: args.wait.map(to_proto).transpose()?,
        request_id: hold.request_id.unwrap_or_default(),
        min_replica_acks: hold.min_replica_acks,
    };
    let mut client = connect(&common.server).await?;
    let events = client.acquire_permits(request).await;
    let mut events = events.map_err(changing)?.into_inner();
    while let Some(answer) = events.message().await.map_err(changing)? {
        match answer.event {
            Some(Event::Waiting(waiting)) => output::say(&words::waiting(&name, &waiting)),
            Some(Event::Granted(grant)) => {
                let text = format!("granted {}", words::grant(&grant));
                common.output.data(&text, &json::granted(&grant))?;
                return Ok(exit::OK);
            }
            Some(Event::NotGranted(ended)) => {
                let why = match ended.reason() {
                    NotGrantedReason::WaitTimeout => "the wait ran out",
                    NotGrantedReason::Cancelled => "the wait was cancelled",
                    NotGrantedReason::Unspecified => "no reason given",
                };
                let text = format!("not granted {name}: {why}, available={}", ended.available);
                common.output.data(&text, &json::not_granted(ended))?;
                return Ok(exit::NOT_GRANTED);
            }
            None => {}
        }
    }
    let why = "the coordinator ended the wait without an answer";
    Err(Failure::local(exit::OUTCOME_UNKNOWN, why))
}

async fn try_acquire(args: TryAcquirePermitsArgs) -> Ended {
    let (common, hold) = (args.common, args.hold);
    let name = hold.name.clone();
    let request = TryAcquirePermitsRequest {
        name: hold.name,
        session_id: String::new(),
        owner: hold.owner.unwrap_or_default(),
        permits: hold.permits,
        lease: hold.lease.map(to_proto).transpose()?,
        request_id: hold.request_id.unwrap_or_default(),
        min_replica_acks: hold.min_replica_acks,
    };
    let mut client = connect(&common.server).await?;
    let answer = client.try_acquire_permits(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let (text, code) = match &answer.grant {
        Some(grant) if answer.acquired => (format!("granted {}", words::grant(grant)), exit::OK),
        _ => {
            let text = format!("not granted {name}: available={}", answer.available);
            (text, exit::NOT_GRANTED)
        }
    };
    common.output.data(&text, &json::tried(&answer))?;
    Ok(code)
}

async fn release(args: ReleasePermitsArgs) -> Ended {
    let request = ReleasePermitsRequest {
        name: args.name.clone(),
        session_id: String::new(),
        owner: args.owner,
        permit_ids: args.permit,
        request_id: args.request_id.unwrap_or_default(),
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.release_permits(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let (released, available) = (answer.released, answer.available);
    let text = format!(
        "released {} permits={released} available={available}",
        args.name
    );
    args.common.output.data(&text, &json::released(answer))?;
    Ok(exit::OK)
}

async fn renew(args: RenewPermitsArgs) -> Ended {
    let request = RenewPermitsRequest {
        name: args.name,
        session_id: String::new(),
        owner: args.owner,
        permit_ids: args.permit,
        lease: args.lease.map(to_proto).transpose()?,
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.renew_permits(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let lines = answer.grants.iter().map(words::grant);
    let lines: Vec<String> = lines.map(|grant| format!("renewed {grant}")).collect();
    args.common
        .output
        .data(&lines.join("\n"), &json::renewed(&answer))?;
    Ok(exit::OK)
}

async fn describe(args: CounterArgs) -> Ended {
    let request = DescribeSemaphoreRequest { name: args.name };
    let mut client = connect(&args.common.server).await?;
    let answer = client.describe_semaphore(short(request)).await;
    let answer = answer.map_err(reading)?.into_inner();
    let text = words::description(&answer);
    args.common.output.data(&text, &json::described(&answer))?;
    Ok(exit::OK)
}
