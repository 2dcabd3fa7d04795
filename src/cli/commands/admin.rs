//! Commands about what is others'.

use std::io::{self, BufRead as _, IsTerminal as _};

use lockkeeper_api::pb::{
    ForceReleaseRequest, ListLocksRequest, ListSessionsRequest, WatchRequest, watch_response::Event,
};

use super::{Ended, changing, reading};
use crate::{
    args::{ForceReleaseArgs, ListArgs, SessionsArgs, WatchArgs},
    client::{connect_admin, short},
    exit,
    failure::Failure,
    json::admin as json,
    output::{self, admin as words},
};

/// One line for each name.
pub(crate) async fn list(args: ListArgs) -> Ended {
    let mut client = connect_admin(&args.common.server).await?;
    let mut request = ListLocksRequest {
        prefix: args.prefix,
        page_size: 0,
        page_token: String::new(),
    };
    loop {
        let page = client.list_locks(short(request.clone())).await;
        let page = page.map_err(reading)?.into_inner();
        for lock in &page.locks {
            let text = words::lock(lock);
            args.common.output.data(&text, &json::lock(lock))?;
        }
        if page.next_page_token.is_empty() {
            return Ok(exit::OK);
        }
        request.page_token = page.next_page_token;
    }
}

/// One line for each session.
pub(crate) async fn sessions(args: SessionsArgs) -> Ended {
    let mut client = connect_admin(&args.common.server).await?;
    let mut request = ListSessionsRequest::default();
    loop {
        let page = client.list_sessions(short(request.clone())).await;
        let page = page.map_err(reading)?.into_inner();
        for session in &page.sessions {
            let text = words::session(session);
            args.common.output.data(&text, &json::session(session))?;
        }
        if page.next_page_token.is_empty() {
            return Ok(exit::OK);
        }
        request.page_token = page.next_page_token;
    }
}

/// One line for each thing that happens, without end.
pub(crate) async fn watch(args: WatchArgs) -> Ended {
    let mut client = connect_admin(&args.common.server).await?;
    let prefix = args.prefix;
    let events = client.watch(WatchRequest { prefix }).await;
    let mut events = events.map_err(reading)?.into_inner();
    while let Some(told) = events.message().await.map_err(reading)? {
        let entries = match &told.event {
            Some(Event::Snapshot(snapshot)) => snapshot.entries.as_slice(),
            Some(Event::Delta(delta)) => std::slice::from_ref(delta),
            None => &[],
        };
        for entry in entries {
            let text = words::event(entry);
            args.common.output.data(&text, &json::event(entry))?;
        }
    }
    Err(Failure::unavailable("the coordinator ended the watch"))
}

pub(crate) async fn force_release(args: ForceReleaseArgs) -> Ended {
    if !args.yes {
        confirm(&args.name)?;
    }
    let mut client = connect_admin(&args.common.server).await?;
    let request = ForceReleaseRequest {
        name: args.name.clone(),
        reason: args.reason,
    };
    let answer = client.force_release(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let text = words::forced(&args.name, &answer);
    args.common.output.data(&text, &json::forced(&answer))?;
    Ok(if answer.released {
        exit::OK
    } else {
        exit::NOT_GRANTED
    })
}

/// Has whoever sits at the terminal type the name once more.
fn confirm(name: &str) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::local(exit::USAGE, why));
    if !io::stdin().is_terminal() {
        return refuse("nobody can be asked here: --yes is needed");
    }
    output::say("its holders may be at work, and others will be let in");
    output::say(&format!("type {name} to take it away from them"));
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed)?;
    if typed.trim_end_matches(['\r', '\n']) == name {
        Ok(())
    } else {
        refuse("that is another name; nothing was done")
    }
}
