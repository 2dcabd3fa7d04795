//! Tickets: what a holder gives away, so that another session can take its lock over. A ticket
//! names the grant by its fencing token, so it ends with the grant, and is claimed at most once:
//! the claim makes a newer one. Nothing is stored.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{session_secrets::SessionSecrets, types::LockName};

const VERSION: u8 = 1;
const PAYLOAD_BYTES: usize = 17;

/// In the place of a session's id, which it is not: so no ticket is a resume token.
const PURPOSE: &str = "ticket";

/// A grant that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// Its fencing token.
    pub(crate) token: u64,
    /// Until when it can be claimed, in microseconds of the store's clock.
    pub(crate) until: u64,
}

/// Why a grant is not offered, or a ticket not claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketRefused {
    /// No such ticket was made for the lock, or with another secret.
    Invalid,
    /// Its time is over.
    Expired,
    /// The grant has ended, or was handed over.
    Over,
    /// The grant is none that can be handed over.
    Unfit,
}

// === impl Ticket ===

impl Ticket {
    /// The ticket as text, signed for this lock.
    pub(crate) fn sign(self, secrets: &SessionSecrets, name: &LockName) -> String {
        let mut ticket = vec![VERSION];
        ticket.extend_from_slice(&self.token.to_be_bytes());
        ticket.extend_from_slice(&self.until.to_be_bytes());
        let signature = secrets.sign((PURPOSE, name.store_key()), &ticket);
        ticket.extend_from_slice(&signature);
        URL_SAFE_NO_PAD.encode(ticket)
    }

    /// Reads a ticket; `None` if it was not signed for this lock.
    pub(crate) fn verify(text: &str, secrets: &SessionSecrets, name: &LockName) -> Option<Self> {
        let ticket = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (payload, signature) = ticket.split_at_checked(PAYLOAD_BYTES)?;
        if !secrets.signed((PURPOSE, name.store_key()), payload, signature) {
            return None;
        }
        let (token, until) = payload.strip_prefix(&[VERSION])?.split_first_chunk::<8>()?;
        Some(Self {
            token: u64::from_be_bytes(*token),
            until: u64::from_be_bytes(until.try_into().ok()?),
        })
    }
}

// === impl TicketRefused ===

impl TicketRefused {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Expired => "expired",
            Self::Over => "over",
            Self::Unfit => "unfit",
        }
    }

    /// For people.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Invalid => "it is not for this lock, or was made with another session.secret",
            Self::Expired => "it has expired",
            Self::Over => "the grant has ended, or was handed over",
            Self::Unfit => {
                "only an EXCLUSIVE grant with one hold, without hold_at_least and lock_delay, can \
                 be handed over, and to another owner"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::tests;

    #[test]
    fn a_ticket_is_accepted_for_its_lock_only_and_as_it_was_made() {
        let name = |name| LockName::parse(name, &tests::limits()).unwrap();
        let secret = b"0123456789abcdef".to_vec();
        let secrets = SessionSecrets::new(vec![secret.clone()]);
        let ticket = Ticket {
            token: 1_700_000_000_000_000,
            until: u64::MAX,
        };
        let text = ticket.sign(&secrets, &name("a"));
        assert_eq!(Ticket::verify(&text, &secrets, &name("a")), Some(ticket));
        assert_eq!(Ticket::verify(&text, &secrets, &name("b")), None);
        let another = b"another secret..".to_vec();
        let wrong = SessionSecrets::new(vec![another.clone()]);
        assert_eq!(Ticket::verify(&text, &wrong, &name("a")), None);
        let both = SessionSecrets::new(vec![another, secret]);
        assert_eq!(Ticket::verify(&text, &both, &name("a")), Some(ticket));
        for at in 0..text.len() {
            let mut forged = text.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(Ticket::verify(&forged, &secrets, &name("a")), None, "{at}");
        }
        for other in ["", "A", "!", &text[1..]] {
            assert_eq!(Ticket::verify(other, &secrets, &name("a")), None);
        }
    }
}
