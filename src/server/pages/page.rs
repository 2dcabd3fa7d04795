//! Pages of which each coordinator knows a part. Asked by a person, a coordinator asks the others
//! for the same page and adds what they know; asked by another coordinator, it answers for itself.

use axum::{extract::Query, http::Uri};
use lockkeeper_coordinator::{Error, Invalid, LockName};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    description, elsewhere,
    graph::Graph,
    history::{self, Wanted},
    json::{described, described_latch, described_semaphore, session},
    local::Local,
    overview::overview,
    together::{Charted, together},
};
use crate::fleet::Asked;

/// The pages, as they are called in the path.
pub(crate) const PAGES: [&str; 7] = [
    "lock",
    "semaphore",
    "latch",
    "graph",
    "history",
    "session",
    "overview",
];

/// A page and its parameters.
#[derive(Debug)]
pub(crate) enum Page {
    Lock(Named),
    Semaphore(Named),
    Latch(Named),
    Graph,
    History(Box<Wanted>),
    Session(OfDigest),
    Overview(Charted),
}

/// The session of a request.
#[derive(Debug, Deserialize)]
pub(crate) struct OfDigest {
    digest: String,
}

/// The name that a page is about.
#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    name: String,
}

// === impl Page ===

impl Page {
    /// The page with this name and these parameters, encoded as in a URL.
    pub(crate) fn parse(page: &str, query: &str) -> Result<Self, Invalid> {
        Ok(match page {
            "lock" => Self::Lock(parameters(query)?),
            "semaphore" => Self::Semaphore(parameters(query)?),
            "latch" => Self::Latch(parameters(query)?),
            "graph" => Self::Graph,
            "history" => Self::History(Box::new(parameters::<Wanted>(query)?.checked()?)),
            "session" => Self::Session(parameters(query)?),
            "overview" => Self::Overview(parameters(query)?),
            _ => return Err(Invalid::new("page", "is not known")),
        })
    }

    /// The operation for the audit log, and the name or the prefix that takes the admin right.
    pub(crate) fn asks(&self) -> (&'static str, &str) {
        match self {
            Self::Lock(Named { name }) => ("Describe", name),
            Self::Semaphore(Named { name }) => ("DescribeSemaphore", name),
            Self::Latch(Named { name }) => ("DescribeLatch", name),
            Self::Graph => ("Graph", ""),
            Self::History(wanted) => ("History", wanted.names()),
            Self::Session(_) => ("Session", ""),
            Self::Overview(_) => ("Overview", ""),
        }
    }

    /// What a coordinator knows: null of a session that is elsewhere.
    pub(crate) async fn read(&self, local: &Local) -> Result<Value, Error> {
        let coordinator = &local.coordinator;
        let named = |it: &Named| LockName::parse(&it.name, coordinator.limits());
        Ok(match self {
            Self::Lock(name) => described(&coordinator.describe(named(name)?).await?),
            Self::Semaphore(name) => {
                described_semaphore(&coordinator.describe_semaphore(named(name)?).await?)
            }
            Self::Latch(name) => described_latch(&coordinator.describe_latch(named(name)?).await?),
            Self::Graph => json!(Graph::of(coordinator).await?),
            Self::History(wanted) => {
                wanted.name(coordinator.limits())?;
                history::history(coordinator, wanted)
            }
            Self::Session(OfDigest { digest }) => session(coordinator, digest),
            Self::Overview(_) => overview(local).await,
        })
    }

    /// Whether the others know nothing that matters here.
    pub(crate) fn is_answered(&self, own: &Value) -> bool {
        match self {
            Self::Lock(_)
            | Self::Semaphore(_)
            | Self::Latch(_)
            | Self::Graph
            | Self::Overview(_) => false,
            Self::History(wanted) => wanted.is_of_one_coordinator(),
            Self::Session(_) => !own.is_null(),
        }
    }

    /// The page with what the others know, and which of them were not asked. Null of a session that
    /// none has, if all were asked.
    pub(crate) fn together(
        &self,
        own_name: Option<&str>,
        own: Value,
        others: Asked<Value>,
    ) -> Value {
        let Asked {
            mut answers,
            unasked,
        } = others;
        let mut page = match self {
            Self::Lock(_) | Self::Semaphore(_) | Self::Latch(_) => {
                let answers = answers.into_iter().map(|(_, answer)| answer);
                answers.fold(own, description::with)
            }
            Self::Graph => {
                let mut graph = Graph::default();
                let own = (String::new(), own);
                for (_, part) in std::iter::once(own).chain(answers) {
                    graph.add(serde_json::from_value(part).unwrap_or_default());
                }
                json!(graph.shown())
            }
            Self::History(wanted) => {
                answers.insert(0, (own_name.unwrap_or_default().to_owned(), own));
                history::together(wanted, answers, unasked.is_empty())
            }
            Self::Session(_) if own.is_null() => {
                let found = answers.into_iter().find(|(_, answer)| answer.is_object());
                match found {
                    Some((name, mut session)) => {
                        session["coordinator"] = name.into();
                        return session;
                    }
                    None if unasked.is_empty() => return Value::Null,
                    None => json!({}),
                }
            }
            Self::Session(_) => own,
            Self::Overview(charted) => together(charted, own_name, own, answers),
        };
        let unasked = unasked.iter().map(elsewhere::unasked);
        page["unasked"] = unasked.collect();
        page
    }
}

fn parameters<T: DeserializeOwned>(query: &str) -> Result<T, Invalid> {
    let refuse = |why: String| Invalid::new("query", why);
    let uri = format!("/?{query}").parse::<Uri>();
    let uri = uri.map_err(|error| refuse(error.to_string()))?;
    let parameters = Query::try_from_uri(&uri);
    Ok(parameters.map_err(|error| refuse(error.body_text()))?.0)
}
