//! Commands and answers on the wire, in the protocol RESP3.
//!
//! The library's parser takes 600 instructions for a number, a tenth of all that a pair of acquire
//! and release costs a coordinator. What scripts and commands answer in most cases is read here;
//! the rest by the library.

use std::io;

use deadpool_redis::redis::{Value, parse_redis_value};

/// Arrays in arrays, as deep as the library reads them.
const DEPTH_MAX: u32 = 100;

/// The limit of Redis for a text (`proto-max-bulk-len`).
const TEXT_BYTES_MAX: usize = 512 << 20;

/// Why there is no value.
enum Stop {
    /// The rest of it has not come yet.
    Incomplete,
    /// It is none.
    Malformed,
    /// It is of a kind that the library reads.
    Other,
}

/// What is read, and how far.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Writes a command behind what there is.
pub(super) fn put<const N: usize>(out: &mut Vec<u8>, words: [&[u8]; N]) {
    begin(out, N);
    for word in words {
        put_word(out, word);
    }
}

/// The same, of a command whose first words are always the same, as they are written.
pub(super) fn put_behind<const N: usize>(out: &mut Vec<u8>, first: &[u8], words: [&[u8]; N]) {
    out.extend_from_slice(first);
    for word in words {
        put_word(out, word);
    }
}

/// Writes the beginning of a command that has this many words.
pub(super) fn begin(out: &mut Vec<u8>, words: usize) {
    put_length(out, b'*', words);
}

/// Writes one word of a command.
pub(super) fn put_word(out: &mut Vec<u8>, word: &[u8]) {
    put_length(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

fn put_length(out: &mut Vec<u8>, kind: u8, length: usize) {
    let digit = |number: u8| b'0' + number % 10;
    // In most cases the library for it would take longer than the rest.
    match u8::try_from(length) {
        Ok(few @ ..10) => out.extend_from_slice(&[kind, digit(few), b'\r', b'\n']),
        Ok(some @ ..100) => {
            out.extend_from_slice(&[kind, digit(some / 10), digit(some), b'\r', b'\n']);
        }
        _ => {
            out.push(kind);
            out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// The answer at the beginning of these bytes, and how many of them it takes; none if the rest of
/// it has not come yet.
pub(super) fn answer(bytes: &[u8]) -> io::Result<Option<(Value, usize)>> {
    let mut reader = Reader { bytes, at: 0 };
    match reader.value(DEPTH_MAX) {
        Ok(value) => Ok(Some((value, reader.at))),
        Err(Stop::Incomplete) => Ok(None),
        Err(Stop::Malformed) => Err(malformed()),
        Err(Stop::Other) => {
            let Some(end) = end(bytes)? else {
                return Ok(None);
            };
            let value = parse_redis_value(&bytes[..end]).map_err(io::Error::other)?;
            Ok(Some((value, end)))
        }
    }
}

/// Where the value at the beginning ends, of whatever kind; none if it is not whole yet.
fn end(bytes: &[u8]) -> io::Result<Option<usize>> {
    let mut reader = Reader { bytes, at: 0 };
    let mut values = 1_usize;
    while values > 0 {
        match reader.skip_one() {
            Ok(inside) => values = (values - 1).saturating_add(inside),
            Err(Stop::Incomplete) => return Ok(None),
            Err(Stop::Malformed | Stop::Other) => return Err(malformed()),
        }
    }
    Ok(Some(reader.at))
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the answer is none of Redis")
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn value(&mut self, depth: u32) -> Result<Value, Stop> {
        let (kind, line) = self.line()?;
        match kind {
            b':' => Ok(Value::Int(number(line)?)),
            b'_' if line.is_empty() => Ok(Value::Nil),
            b'+' if line == b"OK" => Ok(Value::Okay),
            b'+' => match std::str::from_utf8(line) {
                Ok(text) => Ok(Value::SimpleString(text.to_owned())),
                Err(_) => Err(Stop::Malformed),
            },
            b'$' | b'*' if line == b"-1" => Ok(Value::Nil),
            b'$' => Ok(Value::BulkString(self.text(line)?.to_vec())),
            b'*' => {
                let depth = depth.checked_sub(1).ok_or(Stop::Malformed)?;
                let count = length(line)?;
                // Each has three bytes at least.
                let mut values = Vec::with_capacity(count.min(self.bytes.len() / 3));
                for _ in 0..count {
                    values.push(self.value(depth)?);
                }
                Ok(Value::Array(values))
            }
            _ => Err(Stop::Other),
        }
    }

    /// Goes behind a value, but for the values in it. Returns how many those are.
    fn skip_one(&mut self) -> Result<usize, Stop> {
        let (kind, line) = self.line()?;
        match kind {
            b'$' | b'*' if line == b"-1" => Ok(0),
            b'$' | b'=' | b'!' => self.text(line).map(|_| 0),
            b'*' | b'~' | b'>' => length(line),
            b'%' => Ok(length(line)?.saturating_mul(2)),
            // Says something of the value that follows it.
            b'|' => Ok(length(line)?.saturating_mul(2).saturating_add(1)),
            b':' | b'_' | b'+' | b'-' | b'#' | b',' | b'(' => Ok(0),
            _ => Err(Stop::Malformed),
        }
    }

    /// What kind of value the next line begins, and the rest of the line.
    fn line(&mut self) -> Result<(u8, &'a [u8]), Stop> {
        let rest = &self.bytes[self.at..];
        let (kind, line) = rest.split_first().ok_or(Stop::Incomplete)?;
        let Some(length) = line.iter().position(|byte| *byte == b'\n') else {
            // A line that is none of Redis may never end.
            return Err(if kind.is_ascii_punctuation() {
                Stop::Incomplete
            } else {
                Stop::Malformed
            });
        };
        self.at += length + 2;
        let line = line[..length].strip_suffix(b"\r");
        Ok((*kind, line.ok_or(Stop::Malformed)?))
    }

    /// The text behind a line that says how long it is.
    fn text(&mut self, line: &[u8]) -> Result<&'a [u8], Stop> {
        let length = length(line)?;
        let rest = &self.bytes[self.at..];
        let (text, rest) = rest.split_at_checked(length).ok_or(Stop::Incomplete)?;
        match rest {
            [b'\r', b'\n', ..] => {
                self.at += length + 2;
                Ok(text)
            }
            [] | [b'\r'] => Err(Stop::Incomplete),
            _ => Err(Stop::Malformed),
        }
    }
}

fn number(line: &[u8]) -> Result<i64, Stop> {
    let text = std::str::from_utf8(line).map_err(|_| Stop::Malformed)?;
    text.parse().map_err(|_| Stop::Malformed)
}

fn length(line: &[u8]) -> Result<usize, Stop> {
    let length = usize::try_from(number(line)?).map_err(|_| Stop::Malformed)?;
    (length <= TEXT_BYTES_MAX)
        .then_some(length)
        .ok_or(Stop::Malformed)
}

#[cfg(test)]
#[path = "resp_tests.rs"]
mod tests;
