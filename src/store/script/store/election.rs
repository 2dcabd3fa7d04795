//! The scripts of elections.

use std::{sync::Arc, time::Duration};

use super::scripts::Scripts;
use crate::{
    host::{Call, Value, Words, words},
    script::{
        CallError, Ownership, Unsupported,
        calls::{
            encoding::{
                DONE, NOT_DONE, REPEATED, malformed, millis, refusal, time_to_live, unsigned,
            },
            ownership,
        },
        catalog, keys,
    },
};

/// A value that a leader proclaimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its number in the record.
    pub revision: u64,
    /// The fencing token of the leader's grant.
    pub term: u64,
    /// The leader, as a field of the lock's hash.
    pub owner: Arc<str>,
    /// The name of its client.
    pub client_name: String,
    /// The value.
    pub value: String,
}

/// What a proclamation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proclaimed {
    /// The newest value has this revision.
    Done(u64),
    /// The owner does not hold the lock by this grant.
    NotLeader(Ownership),
}

/// An election as the store shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElectionInspected {
    /// Whether the leader of the newest value leads.
    pub leads: bool,
    /// What is left of its lease; none if it has no time to live.
    pub remaining: Option<Duration>,
    /// The newest value last. Before it, as far as they are kept, those that were asked for: all
    /// later ones than a revision, or all if the store does not know that one.
    pub recorded: Vec<Recorded>,
}

// === impl Scripts ===

impl Scripts {
    /// Refuses elections where the store does not have them.
    pub fn check_elections(&self) -> Result<(), CallError> {
        self.single(Unsupported::Elections).map(drop)
    }

    /// Records a value of the owner that holds the lock by the grant with this token. The newest
    /// value again changes nothing.
    pub async fn proclaim(
        &self,
        name: &str,
        owner: &str,
        term: u64,
        client_name: &str,
        value: &str,
    ) -> Result<Proclaimed, CallError> {
        let store = self.single(Unsupported::Elections)?;
        let args = words![
            owner,
            term,
            client_name,
            value,
            millis(self.config.idle_token_retention),
            store.publish(),
            &keys::election(name),
        ];
        let script = &catalog::ELECTION_PROCLAIM;
        let reply = store.eval(script, election_keys(name), args).await?;
        match *reply.as_slice() {
            [DONE | REPEATED, revision] => Ok(Proclaimed::Done(unsigned(revision))),
            [NOT_DONE, why] => match ownership(why) {
                Some(ownership) => Ok(Proclaimed::NotLeader(ownership)),
                None => Err(malformed(script, &reply)),
            },
            _ => Err(refusal(script, &reply)),
        }
    }

    /// Who leads, and the values after a revision; only the newest without one. Changes nothing.
    pub async fn inspect_election(
        &self,
        name: &str,
        after: Option<u64>,
    ) -> Result<ElectionInspected, CallError> {
        let store = self.single(Unsupported::Elections)?;
        let script = &catalog::ELECTION_INSPECT;
        let args = after.into_iter().collect();
        let keys = election_keys(name);
        let reply = store.ask(Call { script, keys, args }).await?;
        let Value::Array(values) = &reply else {
            return Err(malformed(script, &reply));
        };
        match values.as_slice() {
            [
                Value::Int(DONE),
                Value::Int(leads),
                Value::Int(remaining),
                Value::Array(entries),
            ] => {
                let recorded = entries.iter().map(Recorded::parse);
                Ok(ElectionInspected {
                    leads: *leads == 1,
                    remaining: time_to_live(*remaining),
                    recorded: recorded
                        .collect::<Option<_>>()
                        .ok_or_else(|| malformed(script, &reply))?,
                })
            }
            _ => Err(malformed(script, &reply)),
        }
    }
}

// === impl Recorded ===

impl Recorded {
    /// As `lua/lib/election.lua` describes it.
    fn parse(entry: &Value) -> Option<Self> {
        let Value::Bytes(entry) = entry else {
            return None;
        };
        let mut lines = str::from_utf8(entry).ok()?.splitn(5, '\n');
        let mut line = || lines.next();
        Some(Self {
            revision: line()?.parse().ok()?,
            term: line()?.parse().ok()?,
            owner: line()?.into(),
            client_name: line()?.to_owned(),
            value: line()?.to_owned(),
        })
    }
}

fn election_keys(name: &str) -> Words {
    words![keys::lock(name), keys::counter(name), keys::election(name),]
}
