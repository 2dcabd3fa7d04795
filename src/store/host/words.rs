//! The words of a call in one buffer: a call has up to some thousands, and an allocation for each
//! would cost more than the rest of what a call takes here.

use std::fmt;

use bytes::Bytes;

/// What most calls need, so that the buffer does not grow.
const ROOM: usize = 256;

/// Something that is a word of a call.
pub trait Word {
    /// Writes the word behind what there is.
    fn write_to(&self, buffer: &mut Vec<u8>);
}

/// Words one after the other, each behind its length.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Words {
    buffer: Vec<u8>,
    len: usize,
}

/// The words of [`Words`], in order.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    rest: &'a [u8],
    len: usize,
}

/// A word's length.
type Length = u32;

/// The [`Words`] that these are.
#[macro_export]
macro_rules! words {
    ($($word:expr),* $(,)?) => {{
        #[allow(unused_mut, reason = "there may be none")]
        let mut words = $crate::host::Words::default();
        $(words.push($word);)*
        words
    }};
}

// === impl Words ===

impl Words {
    /// Adds a word.
    pub fn push(&mut self, word: impl Word) -> &mut Self {
        if self.buffer.capacity() == 0 {
            self.buffer.reserve(ROOM);
        }
        let at = self.buffer.len();
        self.buffer
            .extend_from_slice(&Length::default().to_ne_bytes());
        word.write_to(&mut self.buffer);
        let (_, written) = self.buffer.split_at_mut(at);
        // Requests are limited to far less than the largest length.
        if let Some((length, word)) = written.split_first_chunk_mut() {
            *length = Length::try_from(word.len())
                .unwrap_or(Length::MAX)
                .to_ne_bytes();
        }
        self.len += 1;
        self
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first word.
    pub fn first(&self) -> Option<&[u8]> {
        self.iter().next()
    }

    /// All words, in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            rest: &self.buffer,
            len: self.len,
        }
    }
}

impl<W: Word> Extend<W> for Words {
    fn extend<I: IntoIterator<Item = W>>(&mut self, words: I) {
        words.into_iter().for_each(|word| {
            self.push(word);
        });
    }
}

impl<W: Word> FromIterator<W> for Words {
    fn from_iter<I: IntoIterator<Item = W>>(words: I) -> Self {
        let mut all = Self::default();
        all.extend(words);
        all
    }
}

impl<'a> IntoIterator for &'a Words {
    type Item = &'a [u8];
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.iter().map(String::from_utf8_lossy);
        f.debug_list().entries(words).finish()
    }
}

// === impl Iter ===

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first_chunk()?;
        let length = usize::try_from(Length::from_ne_bytes(*length)).ok()?;
        let (word, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        self.len -= 1;
        Some(word)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len, Some(self.len))
    }
}

impl ExactSizeIterator for Iter<'_> {}

// === impl Word ===

impl Word for [u8] {
    fn write_to(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(self);
    }
}

impl Word for str {
    fn write_to(&self, buffer: &mut Vec<u8>) {
        self.as_bytes().write_to(buffer);
    }
}

impl Word for String {
    fn write_to(&self, buffer: &mut Vec<u8>) {
        self.as_str().write_to(buffer);
    }
}

impl Word for Bytes {
    fn write_to(&self, buffer: &mut Vec<u8>) {
        self.as_ref().write_to(buffer);
    }
}

/// In decimal digits.
impl Word for u64 {
    fn write_to(&self, buffer: &mut Vec<u8>) {
        itoa::Buffer::new().format(*self).write_to(buffer);
    }
}

/// In decimal digits.
impl Word for u32 {
    fn write_to(&self, buffer: &mut Vec<u8>) {
        u64::from(*self).write_to(buffer);
    }
}

/// An empty word, if there is none.
impl<W: Word> Word for Option<W> {
    fn write_to(&self, buffer: &mut Vec<u8>) {
        if let Some(word) = self {
            word.write_to(buffer);
        }
    }
}

impl<W: Word + ?Sized> Word for &W {
    fn write_to(&self, buffer: &mut Vec<u8>) {
        (**self).write_to(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_out_as_they_were_put_in() {
        let none = words![];
        assert!(none.is_empty() && none.first().is_none());
        let long = "long".repeat(1000);
        let mut words = words!["a", 17_u64, &long, None::<u32>, Some("b")];
        words.extend([Bytes::from_static(b"\0\xff")]);
        let expected: [&[u8]; 6] = [b"a", b"17", long.as_bytes(), b"", b"b", b"\0\xff"];
        assert!(words.iter().eq(expected), "{words:?}");
        assert_eq!((words.len(), words.iter().len()), (6, 6));
        assert_eq!(words, expected.into_iter().collect());
    }
}
