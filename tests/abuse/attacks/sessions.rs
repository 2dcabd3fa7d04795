//! Sessions: many, forbidden ones, and forged ones.

use lockkeeper_api::pb::{self, session_request::Request};
use parking_lot::Mutex;

use super::Did;
use crate::{
    client::{Client, Session},
    scene::Who,
    target::{Tally, Target},
};

/// The connections of the attackers, and what each asks for at once.
const CONNECTIONS: usize = 5;
const TASKS: usize = 100;

/// Opens sessions from some connections and keeps those that it gets.
async fn opened(target: &Target, who: Who) -> (Tally, Vec<(Client, Session)>) {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(target.client(who).await);
    }
    let kept = Mutex::new(Vec::new());
    let tally = target.storm(TASKS, |task| {
        let mut client = clients[task % CONNECTIONS].clone();
        let kept = &kept;
        async move {
            let opened = client.open_with(pb::OpenSession::default()).await;
            let is_open = opened.is_ok();
            kept.lock().extend(opened.map(|it| (client, it)));
            is_open
        }
    });
    let tally = tally.await;
    (tally, kept.into_inner())
}

/// An identity that no rule allows anything opens sessions.
pub(crate) async fn of_the_ruleless(target: Target) -> Did {
    let (tally, kept) = opened(&target, Who::Ruleless).await;
    match kept.len() {
        0 => Ok(format!("sessions: {tally}")),
        open => Err(format!("{open} sessions were opened without a right")),
    }
}

/// A tenant opens as many as its quota allows, and goes on asking.
pub(crate) async fn up_to_the_quota(target: Target) -> Did {
    let (tally, _kept) = opened(&target, Who::Tenant).await;
    Ok(format!("sessions: {tally}"))
}

/// Resumes with tokens that nobody has issued.
pub(crate) async fn forged(target: Target) -> Did {
    let mut own = target.client(Who::Tenant).await;
    let session = own.open().await;
    let id = session.id();
    let resumed = target.storm(64, |task| {
        let mut client = own.clone();
        let resume = pb::ResumeSession {
            session_id: id.clone(),
            resume_token: vec![u8::try_from(task).unwrap(); 60],
            ..Default::default()
        };
        async move { client.session(Request::Resume(resume)).await.is_ok() }
    });
    let tally = resumed.await;
    match tally.done() {
        0 => Ok(format!("resumes: {tally}")),
        resumed => Err(format!("{resumed} forged tokens were accepted")),
    }
}
