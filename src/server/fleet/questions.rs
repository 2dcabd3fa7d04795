//! What the other coordinators are asked.

use lockkeeper_api::pb;
use lockkeeper_coordinator::SessionsEnded;
use serde_json::Value;
use tonic::{Code, Response, Status};

use super::{
    forwarded::Forwarded,
    peers::{Asked, Client, Fleet},
};

/// The longest history of a coordinator is shorter.
const PAGE_BYTES_MAX: usize = 16 << 20;

// === impl Fleet ===

impl Fleet {
    /// What each other coordinator says of its state.
    pub(crate) async fn coordinators(
        &self,
        forwarded: &Forwarded,
    ) -> Asked<pb::CoordinatorSummary> {
        let call = |mut client: Client| {
            let request = forwarded.request(pb::ListCoordinatorsRequest::default());
            async move { client.list_coordinators(request).await }
        };
        let Asked { answers, unasked } = self.ask(forwarded, call).await;
        let own = |answer: pb::ListCoordinatorsResponse| answer.coordinators.into_iter().next();
        let answers = answers.into_iter();
        let answers = answers.filter_map(|(name, answer)| Some((name, own(answer)?)));
        Asked {
            answers: answers.collect(),
            unasked,
        }
    }

    /// The same page of the sessions of each other coordinator; the sessions name it.
    pub(crate) async fn sessions(
        &self,
        forwarded: &Forwarded,
        page_size: u32,
        page_token: &str,
    ) -> Asked<pb::ListSessionsResponse> {
        let request = pb::ListSessionsRequest {
            page_size,
            page_token: page_token.to_owned(),
            fleet: false,
        };
        let call = |mut client: Client| {
            let request = forwarded.request(request.clone());
            async move { client.list_sessions(request).await }
        };
        let mut asked = self.ask(forwarded, call).await;
        for (name, page) in &mut asked.answers {
            for session in &mut page.sessions {
                session.coordinator.clone_from(name);
            }
        }
        asked
    }

    /// A page of the console of each other coordinator, as JSON.
    pub(crate) async fn page(
        &self,
        forwarded: &Forwarded,
        page: &str,
        query: &str,
    ) -> Asked<Value> {
        let call = |client: Client| {
            let mut client = client.max_decoding_message_size(PAGE_BYTES_MAX);
            let request = forwarded.request(pb::ReadPageRequest {
                page: page.to_owned(),
                query: query.to_owned(),
            });
            async move { client.read_page(request).await }
        };
        let Asked {
            answers,
            mut unasked,
        } = self.ask(forwarded, call).await;
        let mut pages = Vec::new();
        for (coordinator, answer) in answers {
            match serde_json::from_slice(&answer.json) {
                Ok(page) => pages.push((coordinator, page)),
                Err(error) => unasked.push(pb::UnaskedCoordinator {
                    coordinator,
                    reason: format!("its page is not JSON: {error}"),
                    ..pb::UnaskedCoordinator::default()
                }),
            }
        }
        Asked {
            answers: pages,
            unasked,
        }
    }

    /// Ends sessions of each other coordinator while those here end, and adds them up.
    pub(crate) async fn end_sessions(
        &self,
        forwarded: &Forwarded,
        request: &pb::EndSessionRequest,
        own: impl Future<Output = SessionsEnded>,
    ) -> pb::EndSessionResponse {
        let call = |mut client: Client| {
            let request = forwarded.request(pb::EndSessionRequest {
                fleet: false,
                ..request.clone()
            });
            async move { client.end_session(request).await.or_else(none_ended) }
        };
        let (own, others) = futures::join!(own, self.ask(forwarded, call));
        let mut ended = sessions_ended(own);
        for (_, other) in others.answers {
            ended.session_count = ended.session_count.saturating_add(other.session_count);
            ended.grant_count = ended.grant_count.saturating_add(other.grant_count);
        }
        ended.unasked = others.unasked;
        ended
    }
}

/// What ended here, as an answer.
pub(crate) fn sessions_ended(own: SessionsEnded) -> pb::EndSessionResponse {
    let count = |count| u32::try_from(count).unwrap_or(u32::MAX);
    pb::EndSessionResponse {
        session_count: count(own.sessions),
        grant_count: count(own.grants),
        unasked: Vec::new(),
    }
}

/// A session that is not there is an answer, too.
fn none_ended(status: Status) -> Result<Response<pb::EndSessionResponse>, Status> {
    if status.code() != Code::NotFound {
        return Err(status);
    }
    let mut none = Response::new(pb::EndSessionResponse::default());
    none.metadata_mut().clone_from(status.metadata());
    Ok(none)
}

/// Brings the sessions of several pages into the order of their digests. Where a page has a next
/// one, all that follow belong to the next one too. Returns its token.
pub(crate) fn in_order<T>(
    sessions: &mut Vec<T>,
    digest: impl Fn(&T) -> String,
    next: impl IntoIterator<Item = String>,
) -> String {
    let next = next.into_iter().filter(|token| !token.is_empty()).min();
    sessions.sort_by_cached_key(&digest);
    if let Some(last) = &next {
        sessions.retain(|session| digest(session) <= *last);
    }
    next.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_where_the_first_of_its_parts_ends() {
        let page = |parts: &[(&[&str], &str)]| {
            let sessions = parts.iter().flat_map(|(part, _)| part.iter());
            let mut sessions: Vec<String> = sessions.map(ToString::to_string).collect();
            let next = parts.iter().map(|(_, next)| next.to_string());
            let next = in_order(&mut sessions, String::clone, next);
            (sessions.concat(), next)
        };
        assert_eq!(
            page(&[(&["b", "d"], ""), (&["a"], "")]),
            ("abd".into(), String::new())
        );
        let one_goes_on = page(&[(&["b", "e"], "e"), (&["a", "f"], "")]);
        assert_eq!(one_goes_on, ("abe".into(), "e".into()));
        // A session that two coordinators know is on one page.
        let both = page(&[(&["a", "c"], "c"), (&["b", "c"], "c")]);
        assert_eq!(both, ("abcc".into(), "c".into()));
    }
}
