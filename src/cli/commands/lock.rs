//! Commands about one lock.

use lockkeeper_api::pb::{
    AcquireRequest, CheckTokenRequest, DescribeRequest, ReleaseRequest, RenewRequest,
    TryAcquireRequest, acquire_response::Event,
};

use super::{Ended, changing, reading, refusal};
use crate::args::to_proto;
use crate::{
    args::{AcquireArgs, CheckTokenArgs, DescribeArgs, ReleaseArgs, RenewArgs, TryAcquireArgs},
    client::{connect, short},
    exit,
    failure::Failure,
    json, output,
};

pub(crate) async fn acquire(args: AcquireArgs) -> Ended {
    let (common, hold) = (args.common, args.hold);
    let name = hold.name.clone();
    let request = AcquireRequest {
        name: hold.name,
        mode: hold.mode.to_proto().into(),
        session_id: String::new(),
        owner: hold.owner.unwrap_or_default(),
        lease: hold.lease.map(to_proto).transpose()?,
        wait_timeout: args.wait.map(to_proto).transpose()?,
        request_id: hold.request_id.unwrap_or_default(),
        min_replica_acks: hold.min_replica_acks,
    };
    let mut client = connect(&common.server).await?;
    let mut events = client
        .acquire(request)
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
            Event::Waiting(waiting) => output::say(&output::waiting(&name, &waiting)),
            Event::Granted(grant) => {
                let text = format!("granted {}", output::grant(&grant));
                common.output.data(&text, &json::granted(&grant))?;
                return Ok(exit::OK);
            }
            Event::NotGranted(ended) => return refusal(common.output, &name, &ended),
        }
    }
    Err(Failure::local(
        exit::OUTCOME_UNKNOWN,
        "the coordinator ended the wait without an answer",
    ))
}

pub(crate) async fn try_acquire(args: TryAcquireArgs) -> Ended {
    let (common, hold) = (args.common, args.hold);
    let name = hold.name.clone();
    let request = TryAcquireRequest {
        name: hold.name,
        mode: hold.mode.to_proto().into(),
        session_id: String::new(),
        owner: hold.owner.unwrap_or_default(),
        lease: hold.lease.map(to_proto).transpose()?,
        request_id: hold.request_id.unwrap_or_default(),
        min_replica_acks: hold.min_replica_acks,
    };
    let mut client = connect(&common.server).await?;
    let answer = client
        .try_acquire(short(request))
        .await
        .map_err(changing)?
        .into_inner();
    let text = match &answer.grant {
        Some(grant) if answer.acquired => format!("granted {}", output::grant(grant)),
        _ => {
            let holder = output::holder(answer.holder_remaining_lease.as_ref());
            format!("not granted {name}: {holder}")
        }
    };
    common.output.data(&text, &json::tried(&answer))?;
    Ok(if answer.acquired {
        exit::OK
    } else {
        exit::NOT_GRANTED
    })
}

pub(crate) async fn release(args: ReleaseArgs) -> Ended {
    let request = ReleaseRequest {
        name: args.name.clone(),
        session_id: String::new(),
        owner: args.owner,
        request_id: args.request_id.unwrap_or_default(),
        mode: args.mode.to_proto().into(),
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client
        .release(short(request))
        .await
        .map_err(changing)?
        .into_inner();
    let text = if answer.released {
        format!("released {}", args.name)
    } else {
        format!("still held {} hold_count={}", args.name, answer.hold_count)
    };
    args.common.output.data(&text, &json::released(answer))?;
    Ok(exit::OK)
}

pub(crate) async fn renew(args: RenewArgs) -> Ended {
    let request = RenewRequest {
        name: args.name,
        session_id: String::new(),
        owner: args.owner,
        lease: args.lease.map(to_proto).transpose()?,
        mode: args.mode.to_proto().into(),
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client
        .renew(short(request))
        .await
        .map_err(changing)?
        .into_inner();
    let grant = answer.grant.as_ref().map(output::grant).unwrap_or_default();
    args.common
        .output
        .data(&format!("renewed {grant}"), &json::renewed(&answer))?;
    Ok(exit::OK)
}

pub(crate) async fn describe(args: DescribeArgs) -> Ended {
    let mut client = connect(&args.common.server).await?;
    let request = DescribeRequest { name: args.name };
    let answer = client
        .describe(short(request))
        .await
        .map_err(reading)?
        .into_inner();
    args.common
        .output
        .data(&output::description(&answer), &json::described(&answer))?;
    Ok(exit::OK)
}

pub(crate) async fn check_token(args: CheckTokenArgs) -> Ended {
    let mut client = connect(&args.common.server).await?;
    let request = CheckTokenRequest {
        name: args.name.clone(),
        fencing_token: args.token,
    };
    let answer = client
        .check_token(short(request))
        .await
        .map_err(reading)?
        .into_inner();
    let text = format!(
        "{} {} last_fencing_token={} held={}",
        if answer.current {
            "current"
        } else {
            "outdated"
        },
        args.name,
        answer.last_fencing_token,
        answer.held
    );
    args.common
        .output
        .data(&text, &json::token_checked(&answer))?;
    Ok(if answer.current {
        exit::OK
    } else {
        exit::NOT_GRANTED
    })
}
