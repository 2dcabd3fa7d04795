//! The rules of one lock in the store, in any unit of time. The model explores them, and traces of
//! the code's runs are replayed through them.

/// Who has a lock: a client, by which grant, with how many holds, and until when by the store's
/// clock. An ended lease is to be left out by who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Holder<Client, Token, Time> {
    pub(crate) client: Client,
    pub(crate) token: Token,
    pub(crate) holds: u8,
    pub(crate) expires: Time,
}

/// The lock has another holder, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotOwner;

// === impl Holder ===

impl<Client: Copy + PartialEq, Token: Copy + PartialEq, Time: Copy + Ord>
    Holder<Client, Token, Time>
{
    /// A free lock is granted; its holder gets one hold more of the same grant, and no shorter
    /// lease.
    pub(crate) fn acquire(held: Option<Self>, new: Self) -> Result<Self, NotOwner> {
        match held {
            None => Ok(new),
            Some(it) if it.client == new.client => Ok(Self {
                holds: it.holds + 1,
                ..it.renewed(new.expires)
            }),
            Some(_) => Err(NotOwner),
        }
    }

    /// A hold of a grant is given back. None if it was the last one.
    pub(crate) fn release(
        held: Option<Self>,
        client: Client,
        token: Token,
        expires: Time,
    ) -> Result<Option<Self>, NotOwner> {
        let it = Self::of(held, client, token)?;
        let left = Self {
            holds: it.holds - 1,
            ..it.renewed(expires)
        };
        Ok((left.holds > 0).then_some(left))
    }

    /// The last hold of a grant is given back and the lock granted anew, in one step.
    pub(crate) fn hand_over(
        held: Option<Self>,
        client: Client,
        token: Token,
        new: Self,
    ) -> Result<Self, NotOwner> {
        match Self::release(held, client, token, new.expires)? {
            None => Ok(new),
            Some(_) => Err(NotOwner),
        }
    }

    /// The lease of a grant is extended.
    pub(crate) fn renew(
        held: Option<Self>,
        client: Client,
        token: Token,
        expires: Time,
    ) -> Result<Self, NotOwner> {
        Ok(Self::of(held, client, token)?.renewed(expires))
    }

    fn of(held: Option<Self>, client: Client, token: Token) -> Result<Self, NotOwner> {
        held.filter(|it| it.client == client && it.token == token)
            .ok_or(NotOwner)
    }

    fn renewed(self, expires: Time) -> Self {
        Self {
            expires: self.expires.max(expires),
            ..self
        }
    }
}
