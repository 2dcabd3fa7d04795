//! Messages with five bytes in front of them, a flag and the length, as gRPC and the streams of
//! Connect have them.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::grpc::messages::HEADER;

/// The flag of an ordinary message.
pub(super) const MESSAGE: u8 = 0;

/// The flag of the last message of a stream of answers.
pub(super) const END: u8 = 0b10;

/// Cuts bytes into messages, as they come.
#[derive(Debug, Default)]
pub(super) struct Envelopes(BytesMut);

/// Puts the five bytes in front of a message.
pub(super) fn enveloped(flags: u8, message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("messages are limited to far less");
    let mut envelope = BytesMut::with_capacity(HEADER + message.len());
    envelope.put_u8(flags);
    envelope.put_u32(length);
    envelope.put_slice(message);
    envelope.freeze()
}

// === impl Envelopes ===

impl Envelopes {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next complete message, with its flag.
    pub(super) fn next(&mut self) -> Option<(u8, Bytes)> {
        let header = self.0.first_chunk::<HEADER>()?;
        let [flags, length @ ..] = *header;
        let length = u32::from_be_bytes(length) as usize;
        if self.0.len() - HEADER < length {
            return None;
        }
        self.0.advance(HEADER);
        Some((flags, self.0.split_to(length).freeze()))
    }

    /// Whether a message has begun and is incomplete.
    pub(super) fn has_begun(&self) -> bool {
        !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::any, proptest};

    use super::*;

    proptest! {
        #[test]
        fn what_is_put_in_comes_out_however_it_is_cut(
            messages in vec((any::<u8>(), vec(any::<u8>(), 0..40)), 0..6),
            part in 1_usize..50,
        ) {
            let whole = messages.iter().map(|(flags, it)| enveloped(*flags, it));
            let whole = whole.collect::<Vec<_>>().concat();
            let (mut envelopes, mut come) = (Envelopes::default(), Vec::new());
            for bytes in whole.chunks(part) {
                envelopes.push(bytes);
                while let Some((flags, message)) = envelopes.next() {
                    come.push((flags, message.to_vec()));
                }
            }
            assert_eq!(come, messages);
            assert!(!envelopes.has_begun());
            envelopes.push(&[0, 0]);
            assert!(envelopes.next().is_none() && envelopes.has_begun());
        }
    }
}
