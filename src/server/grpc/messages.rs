//! Where messages begin and end in the bytes of a request: each has five bytes in front, a flag and
//! its length.

use tonic::Status;

use super::status;

/// The bytes in front of a message.
pub(super) const HEADER: usize = 5;

/// The largest messages that are taken, by the path of their method.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    message_bytes_max: usize,
}

/// The largest message of a method.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    first: usize,
    others: usize,
}

/// The progress of one request's messages.
#[derive(Debug)]
pub(super) struct Messages {
    limit: Limit,
    /// The body is not in this format: it counts as one message, which ends with it and has at most
    /// so many bytes.
    whole: Option<usize>,
    header: [u8; HEADER],
    /// Bytes of the current message that have come, including those in front of it.
    come: usize,
    /// Its size with the bytes in front, once those have come.
    size: usize,
}

// === impl Sizes ===

impl Sizes {
    /// The largest message of health checks and reflection, which name a service or a symbol.
    pub(super) const SMALL: usize = 1024;

    /// How often `message_bytes_max` fits into the first message of a session: a resumed one names
    /// every grant of the session.
    const RESUME_FACTOR: usize = 4;

    pub(super) fn new(message_bytes_max: usize) -> Self {
        Self { message_bytes_max }
    }

    /// The largest of all.
    pub(super) fn largest(self) -> usize {
        self.message_bytes_max.saturating_mul(Self::RESUME_FACTOR)
    }

    /// The largest messages of a method.
    pub(super) fn of(self, path: &str, is_session: bool) -> Limit {
        let others = if path.starts_with("/grpc.") {
            Self::SMALL
        } else {
            self.message_bytes_max
        };
        let first = if is_session { self.largest() } else { others };
        Limit { first, others }
    }
}

// === impl Messages ===

impl Messages {
    pub(super) fn new(limit: Limit) -> Self {
        Self {
            limit,
            whole: None,
            header: [0; HEADER],
            come: 0,
            size: 0,
        }
    }

    /// Of a body that is one message, without bytes in front of it.
    pub(super) fn whole(limit: Limit) -> Self {
        Self {
            whole: Some(limit.first),
            ..Self::new(limit)
        }
    }

    /// Of a body in another format, which is longer than its messages.
    pub(super) fn opaque(limit: Limit) -> Self {
        Self {
            whole: Some(usize::MAX),
            ..Self::new(limit)
        }
    }

    /// The bytes that a message takes that has begun and is incomplete: all that it announces,
    /// because the decoder makes room for them at once.
    pub(super) fn unfinished(&self) -> usize {
        match self.come {
            come if come < HEADER || self.whole.is_some() => come,
            _ => self.size,
        }
    }

    /// Follows these bytes. Fails for a message that is too large, as soon as its length is known.
    pub(super) fn take(&mut self, mut data: &[u8]) -> Result<(), Status> {
        if let Some(most) = self.whole {
            self.come += data.len();
            return match self.come {
                come if come > most => Err(status::too_large(come, most)),
                _ => Ok(()),
            };
        }
        while !data.is_empty() {
            if self.come < HEADER {
                let count = data.len().min(HEADER - self.come);
                self.header[self.come..self.come + count].copy_from_slice(&data[..count]);
                self.come += count;
                data = &data[count..];
                if self.come < HEADER {
                    return Ok(());
                }
                let [_, length @ ..] = self.header;
                let length = u32::from_be_bytes(length) as usize;
                if length > self.limit.first {
                    return Err(status::too_large(length, self.limit.first));
                }
                self.size = HEADER + length;
            }
            let count = data.len().min(self.size - self.come);
            self.come += count;
            data = &data[count..];
            if self.come == self.size {
                self.come = 0;
                self.limit.first = self.limit.others;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: u8) -> Vec<u8> {
        let mut message = vec![0, 0, 0, 0, length];
        message.extend(vec![b'x'; length.into()]);
        message
    }

    #[test]
    fn messages_are_followed_however_they_are_cut() {
        let all: Vec<u8> = [message(3), message(0), message(200), message(1)].concat();
        for size in 1..all.len() {
            let mut messages = Messages::new(Sizes::new(200).of("/x", false));
            let mut come = 0;
            for part in all.chunks(size) {
                messages.take(part).unwrap();
                come += part.len();
                let ends = [8, 13, 218, 224];
                let begun = ends.into_iter().rfind(|end| *end <= come).unwrap_or(0);
                let announced = ends.into_iter().find(|end| *end > come).unwrap_or(come);
                let expected = match come - begun {
                    few if few < HEADER => few,
                    _ => announced - begun,
                };
                assert_eq!(messages.unfinished(), expected, "{size}");
            }
            assert_eq!(messages.unfinished(), 0);
        }
    }

    #[test]
    fn only_the_first_message_of_a_session_may_be_larger() {
        let sizes = Sizes::new(50);
        let take = |path, is_session, lengths: &[u8]| {
            let mut messages = Messages::new(sizes.of(path, is_session));
            let all: Vec<u8> = lengths.iter().flat_map(|it| message(*it)).collect();
            messages.take(&all).is_ok()
        };
        assert!(take("/l/Session", true, &[200, 50, 50]));
        assert!(!take("/l/Session", true, &[201]));
        assert!(!take("/l/Session", true, &[200, 51]));
        assert!(!take("/l/TryAcquire", false, &[51]));
        let large = Sizes::new(1 << 20).of("/grpc.health.v1.Health/Check", false);
        assert_eq!(large.first, Sizes::SMALL);
    }

    #[test]
    fn a_body_that_is_one_message_has_its_limit() {
        let mut messages = Messages::whole(Sizes::new(10).of("/x", false));
        messages.take(&[b'x'; 6]).unwrap();
        messages.take(&[b'x'; 4]).unwrap();
        assert_eq!(messages.unfinished(), 10);
        assert!(messages.take(b"x").is_err());
    }
}
