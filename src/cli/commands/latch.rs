//! Commands about latches.

use lockkeeper_api::pb::{
    AwaitLatchRequest, AwaitLatchResponse, CountDownRequest, DeleteLatchRequest,
    DescribeLatchRequest, SetCountRequest, await_latch_response::Event,
};

use super::{
    again::wait,
    ended::{Ended, changed, changing, code, reading},
};
use crate::{
    args::{CountDownArgs, LatchArgs, LatchCommand, NameArgs, SetCountArgs, WaitArgs},
    client::{connect_latches as connect, short},
    exit,
    failure::Effect,
    output::{duration, say, wait_ended},
};

pub(crate) async fn latch(command: LatchCommand) -> Ended {
    match command {
        LatchCommand::Set(args) => set(args).await,
        LatchCommand::CountDown(args) => count_down(args).await,
        LatchCommand::Wait(args) => await_open(args).await,
        LatchCommand::Describe(args) => describe(args).await,
        LatchCommand::Delete(args) => delete(args).await,
    }
}

/// A latch that has a count keeps it: an expected answer, but not the wanted one.
async fn set(args: SetCountArgs) -> Ended {
    let request = SetCountRequest {
        name: args.name.clone(),
        count: args.count,
        ttl: args.ttl,
        request_id: args.request.request_id,
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.set_count(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let word = if answer.set { "set" } else { "not set" };
    let text = format!("{word} {} count={}", args.name, answer.count);
    let format = args.common.output;
    changed(format, &text, ("SetCountResponse", &answer))?;
    code(answer.set)
}

async fn count_down(args: CountDownArgs) -> Ended {
    let request = CountDownRequest {
        name: args.name.clone(),
        by: args.by,
        request_id: args.request.request_id,
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.count_down(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let (text, format) = (state(&args.name, answer.count), args.common.output);
    changed(format, &text, ("CountDownResponse", &answer))?;
    Ok(exit::OK)
}

async fn await_open(args: WaitArgs<LatchArgs>) -> Ended {
    let name = args.hold.name;
    let request = AwaitLatchRequest {
        name: name.clone(),
        session_id: String::new(),
        wait_timeout: None,
    };
    let format = args.common.output;
    if args.hold.must_exist {
        let mut client = connect(&args.common.server).await?;
        let request = DescribeLatchRequest { name: name.clone() };
        let seen = client.describe_latch(short(request)).await;
        let seen = seen.map_err(reading)?.into_inner();
        if seen.count == 0 {
            let text = format!("not closed {name}: it was never set, or it has opened");
            format.answer(&text, "DescribeLatchResponse", &seen)?;
            return Ok(exit::NOT_GRANTED);
        }
    }
    let open = async |wait_timeout| {
        let request = AwaitLatchRequest {
            wait_timeout,
            ..request.clone()
        };
        let mut client = connect(&args.common.server).await?;
        let events = client.await_latch(request).await.map_err(reading)?;
        Ok(events.into_inner())
    };
    let show = |answer: AwaitLatchResponse| {
        let (text, code) = match &answer.event {
            Some(Event::Opened(_)) => (state(&name, 0), exit::OK),
            Some(Event::NotOpened(ended)) => {
                let (why, count) = (wait_ended(ended.reason()), ended.count);
                let text = format!("not opened {name}: {why}, count={count}");
                (text, exit::NOT_GRANTED)
            }
            Some(Event::Waiting(waiting)) => {
                say(&format!("waiting for {name}, count={}", waiting.count));
                return Ok(None);
            }
            None => return Ok(None),
        };
        format.answer(&text, "AwaitLatchResponse", &answer)?;
        Ok(Some(code))
    };
    wait(args.wait, Effect::Reads, open, show).await
}

async fn describe(args: NameArgs) -> Ended {
    let request = DescribeLatchRequest { name: args.name };
    let mut client = connect(&args.common.server).await?;
    let answer = client.describe_latch(short(request)).await;
    let answer = answer.map_err(reading)?.into_inner();
    let ttl = match &answer.remaining_ttl {
        Some(ttl) => format!(" remaining_ttl={}", duration(Some(ttl))),
        None => String::new(),
    };
    let state = state(&answer.name, answer.count);
    let text = format!("{state}{ttl} waiters={}", answer.waiter_count);
    let format = args.common.output;
    format.answer(&text, "DescribeLatchResponse", &answer)?;
    Ok(exit::OK)
}

async fn delete(args: NameArgs) -> Ended {
    let name = args.name.clone();
    let request = DeleteLatchRequest { name: args.name };
    let mut client = connect(&args.common.server).await?;
    let answer = client.delete_latch(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let word = if answer.deleted {
        "deleted"
    } else {
        "no latch"
    };
    let format = args.common.output;
    changed(
        format,
        &format!("{word} {name}"),
        ("DeleteLatchResponse", &answer),
    )?;
    Ok(exit::OK)
}

fn state(name: &str, count: u32) -> String {
    let word = if count == 0 { "open" } else { "closed" };
    format!("{word} {name} count={count}")
}
