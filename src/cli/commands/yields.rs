//! Asking holders to yield.

use lockkeeper_api::pb::RequestYieldRequest;

use super::ended::{Ended, changed, changing, code};
use crate::{
    args::YieldArgs,
    client::{connect, short},
    output::lock as words,
};

pub(crate) async fn request_yield(args: YieldArgs) -> Ended {
    let request = RequestYieldRequest {
        name: args.name.clone(),
        reason: args.reason,
        within: Some(args.within),
        client_name: args.client_name,
        preempt: args.preempt,
        grace_period: args.grace_period,
    };
    let mut client = connect(&args.common.server).await?;
    let answer = client.request_yield(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let text = words::yield_requested(&args.name, &answer);
    let format = args.common.output;
    changed(format, &text, ("RequestYieldResponse", &answer))?;
    code(answer.reached_count == answer.holder_count)
}
