//! The stream of a contender: how it is opened and resumed, and what is heard on it.

use std::time::Duration;

use lockkeeper_api::pb::{self, session_request::Request, session_response::Response};
use tokio::time::{Instant, sleep};

use super::{Contender, PAUSE};
use crate::{
    history::What,
    link::{Came, Link},
};

impl Contender {
    /// Makes sure that there is a stream, of the same session if there was one.
    pub(super) async fn connect(&mut self) {
        while self.link.is_none() {
            let coordinators = &self.ring.coordinators;
            let address = coordinators[self.at % coordinators.len()];
            let first = match &self.session {
                Some(session) => Request::Resume(pb::ResumeSession {
                    session_id: session.session_id.clone(),
                    resume_token: session.resume_token.clone(),
                    grants: self
                        .held
                        .iter()
                        .filter(|it| !it.is_lost)
                        .map(|it| it.grant.clone())
                        .collect(),
                    ..pb::ResumeSession::default()
                }),
                None => Request::Open(pb::OpenSession::default()),
            };
            let is_resume = self.session.is_some();
            match Link::open(address, first).await {
                Ok(Some(link)) => {
                    if is_resume {
                        self.resumed(&link.opened.grants);
                    }
                    self.session = Some(link.opened.clone());
                    self.link = Some(link);
                }
                Ok(None) => {
                    self.at += 1;
                    sleep(PAUSE).await;
                }
                Err(()) => {
                    self.lost();
                    self.session = None;
                }
            }
        }
    }

    fn resumed(&mut self, grants: &[pb::Grant]) {
        let Some(held) = self.held.as_mut().filter(|it| !it.is_lost) else {
            return;
        };
        let is_still = |grant: &&pb::Grant| grant.fencing_token == held.grant.fencing_token;
        if grants.iter().any(|grant| is_still(&grant)) {
            held.risk = None;
            self.note_held(What::Resumed);
        }
        // Otherwise a notice follows.
    }

    pub(super) fn lost(&mut self) {
        if let Some(held) = self.held.as_mut().filter(|it| !it.is_lost) {
            held.is_lost = true;
            self.note_held(What::Lost);
        }
    }

    pub(super) fn broke(&mut self) {
        self.link = None;
        self.at += 1;
        self.note_held(What::Broke(Duration::ZERO));
    }

    /// A notice, while something is held.
    pub(super) fn hear(&mut self, came: Came) {
        let response = match came {
            Came::Broke => return self.broke(),
            Came::Frame(_, response) => response,
        };
        let Some(held) = self.held.as_mut() else {
            return;
        };
        let what = match response {
            Response::Lost(lost) => {
                let token = lost.grant.map(|it| it.fencing_token);
                if token != Some(held.grant.fencing_token) || held.is_lost {
                    return;
                }
                held.is_lost = true;
                What::Lost
            }
            Response::AtRisk(risk) => {
                let left = risk.valid_for.and_then(|it| it.try_into().ok());
                let left: Duration = left.unwrap_or_default();
                held.risk = Some(Instant::now() + left);
                What::AtRisk(left)
            }
            Response::Recovered(_) => {
                held.risk = None;
                What::Recovered
            }
            _ => return,
        };
        self.note_held(what);
    }
}
