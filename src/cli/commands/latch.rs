//! Commands about latches.

use lockkeeper_api::pb::{
    AwaitLatchRequest, CountDownRequest, DeleteLatchRequest, DescribeLatchRequest,
    NotGrantedReason, SetCountRequest, await_latch_response::Event,
};
use serde_json::json;

use super::{Ended, changing, reading};
use crate::args::to_proto;
use crate::{
    args::{AwaitLatchArgs, CountDownArgs, CounterArgs, LatchCommand, SetCountArgs},
    client::{connect_latches as connect, short},
    exit,
    failure::Failure,
    json, output,
};

pub(crate) async fn latch(command: LatchCommand) -> Ended {
    match command {
        LatchCommand::Set(args) => set(args).await,
        LatchCommand::CountDown(args) => count_down(args).await,
        LatchCommand::Wait(args) => wait(args).await,
        LatchCommand::Describe(args) => describe(args).await,
        LatchCommand::Delete(args) => delete(args).await,
    }
}

/// A latch that has a count keeps it: expected, but not what was wished.
async fn set(args: SetCountArgs) -> Ended {
    let request = SetCountRequest {
        name: args.name.clone(),
        count: args.count,
        ttl: args.ttl.map(to_proto).transpose()?,
        request_id: args.request_id.unwrap_or_default(),
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.set_count(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let word = if answer.set { "set" } else { "not set" };
    let text = format!("{word} {} count={}", args.name, answer.count);
    let json = json!({ "set": answer.set, "count": answer.count });
    args.common.output.data(&text, &json)?;
    Ok(if answer.set {
        exit::OK
    } else {
        exit::NOT_GRANTED
    })
}

async fn count_down(args: CountDownArgs) -> Ended {
    let request = CountDownRequest {
        name: args.name.clone(),
        by: args.by,
        request_id: args.request_id.unwrap_or_default(),
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.count_down(short(request)).await;
    let count = answer.map_err(changing)?.into_inner().count;
    let text = state(&args.name, count);
    args.common.output.data(&text, &json!({ "count": count }))?;
    Ok(exit::OK)
}

async fn wait(args: AwaitLatchArgs) -> Ended {
    let (name, format) = (args.name, args.common.output);
    let request = AwaitLatchRequest {
        name: name.clone(),
        session_id: String::new(),
        wait_timeout: args.wait.map(to_proto).transpose()?,
    };
    let mut client = connect(&args.common.server).await?;
    let events = client.await_latch(request).await;
    let mut events = events.map_err(reading)?.into_inner();
    while let Some(answer) = events.message().await.map_err(reading)? {
        match answer.event {
            Some(Event::Waiting(waiting)) => {
                output::say(&format!("waiting for {name}, count={}", waiting.count));
            }
            Some(Event::Opened(_)) => {
                format.data(&state(&name, 0), &json!({ "opened": {} }))?;
                return Ok(exit::OK);
            }
            Some(Event::NotOpened(ended)) => {
                let why = match ended.reason() {
                    NotGrantedReason::WaitTimeout => "the wait ran out",
                    NotGrantedReason::Cancelled => "the wait was cancelled",
                    NotGrantedReason::Unspecified => "no reason given",
                };
                let text = format!("not opened {name}: {why}, count={}", ended.count);
                let reason = NotGrantedReason::as_str_name(&ended.reason());
                let json = json!({ "notOpened": { "reason": reason, "count": ended.count } });
                format.data(&text, &json)?;
                return Ok(exit::NOT_GRANTED);
            }
            None => {}
        }
    }
    let why = "the coordinator ended the wait without an answer";
    Err(Failure::unavailable(why))
}

async fn describe(args: CounterArgs) -> Ended {
    let mut client = connect(&args.common.server).await?;
    let request = DescribeLatchRequest { name: args.name };
    let answer = client.describe_latch(short(request)).await;
    let answer = answer.map_err(reading)?.into_inner();
    let ttl = match &answer.remaining_ttl {
        Some(ttl) => format!(" remaining_ttl={}", output::duration(Some(ttl))),
        None => String::new(),
    };
    let state = state(&answer.name, answer.count);
    let text = format!("{state}{ttl} waiters={}", answer.waiter_count);
    args.common.output.data(&text, &json::latch(&answer))?;
    Ok(exit::OK)
}

async fn delete(args: CounterArgs) -> Ended {
    let name = args.name.clone();
    let mut client = connect(&args.common.server).await?;
    let request = DeleteLatchRequest { name: args.name };
    let answer = client.delete_latch(short(request)).await;
    let deleted = answer.map_err(changing)?.into_inner().deleted;
    let word = if deleted { "deleted" } else { "no latch" };
    let json = json!({ "deleted": deleted });
    args.common.output.data(&format!("{word} {name}"), &json)?;
    Ok(exit::OK)
}

fn state(name: &str, count: u32) -> String {
    let word = if count == 0 { "open" } else { "closed" };
    format!("{word} {name} count={count}")
}
