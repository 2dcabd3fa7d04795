//! Commands about elections.

use lockkeeper_api::pb::{LeaderRequest, ObserveResponse, TransferRequest};
use lockkeeper_client::Observed;

use super::ended::{Ended, changed, changing, code, reading};
use crate::{
    args::{ElectionCommand, NameArgs, TransferArgs, WatchElectionArgs},
    client::{connect_elections, connected, short},
    failure::{Effect, Failure},
    output::election as words,
};

pub(crate) async fn election(command: ElectionCommand) -> Ended {
    match command {
        ElectionCommand::Leader(args) => leader(args).await,
        ElectionCommand::Watch(args) => watch(args).await,
        ElectionCommand::Transfer(args) => transfer(args).await,
    }
}

/// That the leader was not reached is an expected answer, but not the wanted one.
async fn transfer(args: TransferArgs) -> Ended {
    let request = TransferRequest {
        name: args.name.clone(),
        to: args.to,
        reason: args.reason,
        within: Some(args.within),
        client_name: args.client_name,
        preempt: args.preempt,
        grace_period: args.grace_period,
    };
    let mut client = connect_elections(&args.common.server).await?;
    let answer = client.transfer(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let text = words::transfer_requested(&args.name, answer);
    let format = args.common.output;
    changed(format, &text, ("TransferResponse", &answer))?;
    code(answer.reached || !answer.held)
}

/// That nobody leads is an expected answer, but not the wanted one.
async fn leader(args: NameArgs) -> Ended {
    let request = LeaderRequest {
        name: args.name.clone(),
    };
    let mut client = connect_elections(&args.common.server).await?;
    let answer = client.leader(short(request)).await;
    let answer = answer.map_err(reading)?.into_inner();
    let text = words::leader_seen(&args.name, &answer);
    let format = args.common.output;
    format.answer(&text, "LeaderResponse", &answer)?;
    code(answer.leader.is_some())
}

/// One line for each term or value. Goes on at another coordinator if one fails.
async fn watch(args: WatchElectionArgs) -> Ended {
    let client = connected(async { args.common.server.client() }).await?;
    let mut observer = client.observe(args.name.as_str(), args.after);
    loop {
        let event = observer.next().await;
        let event = event.map_err(|error| Failure::from_error(&error, Effect::Reads))?;
        let text = words::observed(&args.name, &event);
        let event: Option<Observed> = Some(event);
        let format = args.common.output;
        format.answer(&text, "ObserveResponse", &ObserveResponse { event })?;
    }
}
