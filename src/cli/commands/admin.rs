//! Commands about locks held by other callers.

use std::io::{self, BufRead as _, IsTerminal as _};

use lockkeeper_api::pb::{
    EndSessionRequest, ForceReleaseRequest, ListLocksRequest, ListSessionsRequest, WatchRequest,
    watch_response::Event,
};

use super::ended::{Ended, changing, code, reading};
use crate::{
    args::{CommonArgs, EndSessionArgs, ForceReleaseArgs, PrefixArgs},
    client::{connect_admin, short},
    exit,
    failure::Failure,
    output::{admin as words, say},
};

/// One line for each name.
pub(crate) async fn list(args: PrefixArgs) -> Ended {
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
            let format = args.common.output;
            format.answer(&words::lock(lock), "LockSummary", lock)?;
        }
        if page.next_page_token.is_empty() {
            return Ok(exit::OK);
        }
        request.page_token = page.next_page_token;
    }
}

/// One line for each session.
pub(crate) async fn sessions(common: CommonArgs) -> Ended {
    let mut client = connect_admin(&common.server).await?;
    let mut request = ListSessionsRequest::default();
    loop {
        let page = client.list_sessions(short(request.clone())).await;
        let page = page.map_err(reading)?.into_inner();
        for session in &page.sessions {
            let text = words::session(session);
            common.output.answer(&text, "SessionSummary", session)?;
        }
        if page.next_page_token.is_empty() {
            return Ok(exit::OK);
        }
        request.page_token = page.next_page_token;
    }
}

/// One line for each event, until the coordinator ends the stream.
pub(crate) async fn watch(args: PrefixArgs) -> Ended {
    let mut client = connect_admin(&args.common.server).await?;
    let prefix = args.prefix;
    let events = client.watch(WatchRequest { prefix }).await;
    let mut events = events.map_err(reading)?.into_inner();
    while let Some(answer) = events.message().await.map_err(reading)? {
        let entries = match &answer.event {
            Some(Event::Snapshot(snapshot)) => snapshot.entries.as_slice(),
            Some(Event::Delta(delta)) => std::slice::from_ref(delta),
            None => &[],
        };
        for entry in entries {
            let format = args.common.output;
            format.answer(&words::event(entry), "WatchDelta", entry)?;
        }
    }
    Err(Failure::unavailable("the coordinator ended the watch"))
}

pub(crate) async fn force_release(args: ForceReleaseArgs) -> Ended {
    if !args.yes {
        say("its holders may still be working when others acquire it");
        confirm(&args.name, "force the release")?;
    }
    let mut client = connect_admin(&args.common.server).await?;
    let request = ForceReleaseRequest {
        name: args.name.clone(),
        reason: args.reason,
        grace_period: Some(args.grace_period),
    };
    let answer = client.force_release(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let text = words::forced(&args.name, &answer);
    let format = args.common.output;
    format.answer(&text, "ForceReleaseResponse", &answer)?;
    code(answer.released)
}

pub(crate) async fn end_session(args: EndSessionArgs) -> Ended {
    let digest = args.sessions.digest.unwrap_or_default();
    let identity = args.sessions.identity.unwrap_or_default();
    if !args.yes {
        say("its clients may still be working, and others can acquire their locks at once");
        confirm(&[digest.as_str(), &identity].concat(), "end the sessions")?;
    }
    let mut client = connect_admin(&args.common.server).await?;
    let request = EndSessionRequest {
        session_digest: digest,
        identity,
        reason: args.reason,
    };
    let answer = client.end_session(short(request)).await;
    let answer = answer.map_err(changing)?.into_inner();
    let format = args.common.output;
    format.answer(
        &words::sessions_ended(answer),
        "EndSessionResponse",
        &answer,
    )?;
    code(answer.session_count > 0)
}

/// Asks the user to type the name once more. Fails without a terminal.
fn confirm(name: &str, to: &str) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::local(exit::USAGE, why));
    if !io::stdin().is_terminal() {
        return refuse("no terminal to ask for confirmation: pass --yes");
    }
    say(&format!("type {name} to {to}"));
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed)?;
    if typed.trim_end_matches(['\r', '\n']) == name {
        Ok(())
    } else {
        refuse("the name does not match; nothing was done")
    }
}
