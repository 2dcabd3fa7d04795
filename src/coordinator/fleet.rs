//! The coordinators of a store, which announce themselves in it, so that they can ask each other.
//! What one says of itself is signed with the secret of resume tokens: who can only write to the
//! store cannot name an address that callers' credentials are sent to.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{coordinator::Coordinator, error::Error};

/// How often a coordinator announces itself, and how long it is known after the last time.
pub const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(5);
const TTL: Duration = Duration::from_secs(15);

/// In the place of a session's id, so that no announcement is a resume token.
const PURPOSE: &str = "coordinator";

/// How much the clocks of two coordinators may differ, in seconds.
const CLOCKS_DIFFER_MAX: u64 = 60;

/// What a coordinator says of itself.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Introduction {
    /// Where other coordinators reach its gRPC port.
    pub address: String,
    /// Its version.
    pub version: String,
}

/// Another coordinator of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Its id, a new one at each start.
    pub id: String,
    /// What it says of itself; why that is not believed, if so.
    pub said: Result<Introduction, &'static str>,
}

/// The other coordinators, in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Whether they know of this coordinator. Otherwise there are too many of them.
    pub is_announced: bool,
    /// The others.
    pub others: Vec<Announced>,
}

#[derive(Deserialize, Serialize)]
struct Signed {
    #[serde(flatten)]
    said: Introduction,
    /// In seconds since 1970.
    at: u64,
}

// === impl Coordinator ===

impl Coordinator {
    /// Its id, a new one at each start.
    pub fn id(&self) -> &str {
        &self.core.why.coordinator
    }

    /// Announces this coordinator for 15 s, and returns the others. Fails if the store does not
    /// answer.
    pub async fn announce(&self, own: &Introduction) -> Result<Others, Error> {
        let signed = Signed {
            said: own.clone(),
            at: (self.core.config.unix_seconds)(),
        };
        let text = serde_json::to_string(&signed).expect("text and numbers become JSON");
        let secrets = &self.core.config.session_secrets;
        let signature = secrets.sign((PURPOSE, self.id()), &self.payload(&text));
        let said = [&hex::encode(signature), " ", &text].concat();
        let found = self.say(Some(&said)).await?;
        let others = found.others.iter().map(|(id, said)| {
            let id = String::from_utf8_lossy(id).into_owned();
            let said = self.read(&id, said);
            Announced { id, said }
        });
        let mut others: Vec<_> = others.collect();
        others.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(Others {
            is_announced: found.is_announced,
            others,
        })
    }

    /// The others no longer know of this coordinator. If the store does not answer, they forget it
    /// within 15 s.
    pub async fn leave(&self) {
        if let Err(error) = self.say(None).await {
            tracing::debug!(%error, "the other coordinators are not notified of the end");
        }
    }

    async fn say(
        &self,
        said: Option<&str>,
    ) -> Result<lockkeeper_store::script::OtherCoordinators, Error> {
        let prefix = &self.core.config.limits.key_prefix;
        let announced = self.core.scripts.announce(prefix, self.id(), TTL, said);
        Ok(announced.await?)
    }

    fn read(&self, id: &str, said: &[u8]) -> Result<Introduction, &'static str> {
        let unreadable = "what it says of itself cannot be read";
        let said = str::from_utf8(said).map_err(|_| unreadable)?;
        let (signature, text) = said.split_once(' ').ok_or(unreadable)?;
        let signature = hex::decode(signature).map_err(|_| unreadable)?;
        let secrets = &self.core.config.session_secrets;
        if !secrets.signed((PURPOSE, id), &self.payload(text), &signature) {
            return Err("it has another session.secret");
        }
        let signed: Signed = serde_json::from_str(text).map_err(|_| unreadable)?;
        let now = (self.core.config.unix_seconds)();
        if signed.at.abs_diff(now) > CLOCKS_DIFFER_MAX {
            return Err("its clock differs by more than a minute");
        }
        Ok(signed.said)
    }

    /// What is signed: it is for coordinators with the same prefix only.
    fn payload(&self, text: &str) -> Vec<u8> {
        [&self.core.config.limits.key_prefix, "\0", text]
            .concat()
            .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::Config,
        testing::{config, start},
        types::{Limits, tests::limits},
    };

    const NOW: u64 = 1_800_000_000;

    fn text(address: &str, at: u64) -> String {
        format!(r#"{{"address":"{address}","version":"1","at":{at}}}"#)
    }

    /// What a coordinator with this id says, signed as by this one.
    fn signed(by: &Coordinator, id: &str, text: &str) -> String {
        let secrets = by.session_secrets();
        hex::encode(secrets.sign((PURPOSE, id), &by.payload(text)))
    }

    fn read(coordinator: &Coordinator, signature: &str, text: &str) -> Result<String, String> {
        let said = [signature, " ", text].concat();
        let read = coordinator.read("other", said.as_bytes());
        read.map(|it| it.address).map_err(str::to_owned)
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_is_believed_only_as_it_was_signed_and_for_the_same_names() {
        let coordinator = start(config());
        let (here, there) = (text("http://here", NOW), text("http://there", NOW));
        let signature = signed(&coordinator, "other", &here);
        let expected = Ok("http://here".to_owned());
        assert_eq!(read(&coordinator, &signature, &here), expected);
        let refused = Err("it has another session.secret".to_owned());
        assert_eq!(read(&coordinator, &signature, &there), refused);
        let of_third = signed(&coordinator, "third", &here);
        assert_eq!(read(&coordinator, &of_third, &here), refused);
        let elsewhere = start(Config {
            limits: Limits {
                key_prefix: "app:".into(),
                ..limits()
            },
            ..config()
        });
        assert_eq!(read(&elsewhere, &signature, &here), refused);
        assert!(read(&coordinator, "no digits", &here).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn clocks_may_differ_by_a_minute() {
        let coordinator = start(config());
        let rows = [
            (NOW - 61, false),
            (NOW - 60, true),
            (NOW + 60, true),
            (NOW + 61, false),
        ];
        for (at, is_believed) in rows {
            let text = text("http://here", at);
            let signature = signed(&coordinator, "other", &text);
            assert_eq!(read(&coordinator, &signature, &text).is_ok(), is_believed);
        }
    }
}
