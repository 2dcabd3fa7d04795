//! A client that writes the frames of HTTP/2 itself, so that it can write wrong ones and too many.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use lockkeeper_base::tasks::spawn_detached;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use crate::steps::secs;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
const GOAWAY: u8 = 7;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// What a peer is told that does too much of something.
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_MAX: usize = 16_384;

/// A server that takes nothing for this long has stopped to read.
const BLOCKED_AFTER: Duration = secs(1);

/// A connection.
pub(super) struct Raw {
    write: OwnedWriteHalf,
    seen: Arc<Mutex<Seen>>,
    _reader: Option<AbortOnDropHandle<()>>,
    /// Kept open though nobody reads it.
    _unread: Option<OwnedReadHalf>,
}

/// What has come back.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The code that the connection was ended with.
    pub(super) goaway: Option<u32>,
    /// Streams that were reset, with codes.
    pub(super) resets: BTreeMap<u32, u32>,
    pub(super) is_closed: bool,
}

/// What became of a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flood {
    /// All of it was taken.
    Taken,
    /// The connection was closed.
    Closed,
    /// The server reads no more until it is read from.
    Blocked,
}

/// A frame on the wire.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The headers of a call of this method, each a literal.
pub(super) fn call(method: &str) -> Vec<u8> {
    call_of(&format!("/lockkeeper.v1.LockService/{method}"))
}

/// The headers of a call of the method with this path.
pub(super) fn call_of(path: &str) -> Vec<u8> {
    call_to("localhost", path)
}

/// The same with an authority.
pub(super) fn call_to(authority: &str, path: &str) -> Vec<u8> {
    // POST, http, and names by their places in the static table.
    let mut block = vec![0x83, 0x86, 0x04];
    text(&mut block, path);
    block.push(0x01);
    text(&mut block, authority);
    block.extend([0x0f, 0x10]);
    text(&mut block, "application/grpc");
    block.push(0x00);
    text(&mut block, "te");
    text(&mut block, "trailers");
    block
}

/// A text of less than 16 kB, as HPACK writes it.
pub(super) fn text(block: &mut Vec<u8>, text: &str) {
    let length = text.len();
    if length < 127 {
        block.push(u8::try_from(length).unwrap());
    } else {
        block.push(127);
        let mut rest = length - 127;
        while rest >= 128 {
            block.push(u8::try_from(rest % 128).unwrap() | 128);
            rest /= 128;
        }
        block.push(u8::try_from(rest).unwrap());
    }
    block.extend(text.as_bytes());
}

/// What a client sends first.
pub(super) fn opening() -> Vec<u8> {
    let mut opening = PREFACE.to_vec();
    opening.extend(frame(SETTINGS, 0, 0, &[]));
    opening
}

// === impl Raw ===

impl Raw {
    /// A connection that is opened as it should be, and that reads what comes.
    pub(super) async fn open(address: SocketAddr) -> Self {
        Self::open_with(address, &[], true).await
    }

    /// The same with settings: numbers and values. It may also never read.
    pub(super) async fn open_with(
        address: SocketAddr,
        settings: &[(u16, u32)],
        reads: bool,
    ) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (read, write) = stream.into_split();
        let seen = Arc::default();
        let (mut reader, mut unread) = (None, None);
        if reads {
            let reading = spawn_detached("reader", watch(read, Arc::clone(&seen)));
            reader = Some(AbortOnDropHandle::new(reading));
        } else {
            unread = Some(read);
        }
        let mut raw = Self {
            write,
            seen,
            _reader: reader,
            _unread: unread,
        };
        let mut payload = Vec::new();
        for (number, value) in settings {
            payload.extend(number.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        let mut opening = PREFACE.to_vec();
        opening.extend(frame(SETTINGS, 0, 0, &payload));
        opening.extend(frame(SETTINGS, ACK, 0, &[]));
        raw.write.write_all(&opening).await.unwrap();
        raw
    }

    /// Writes as fast as it can.
    pub(super) async fn flood(&mut self, frames: impl Iterator<Item = Vec<u8>>) -> Flood {
        let mut chunk = Vec::new();
        let mut frames = frames.peekable();
        while let Some(frame) = frames.next() {
            chunk.extend(frame);
            if chunk.len() < FRAME_MAX && frames.peek().is_some() {
                continue;
            }
            if self.seen().goaway.is_some() {
                return Flood::Closed;
            }
            match timeout(BLOCKED_AFTER, self.write.write_all(&chunk)).await {
                Ok(Ok(())) => chunk.clear(),
                Ok(Err(_)) => return Flood::Closed,
                Err(_) => return Flood::Blocked,
            }
        }
        Flood::Taken
    }

    /// What has come back so far.
    pub(super) fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }
}

async fn watch(mut read: OwnedReadHalf, seen: Arc<Mutex<Seen>>) {
    let mut head = [0; 9];
    while read.read_exact(&mut head).await.is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        if read.read_exact(&mut payload).await.is_err() {
            break;
        }
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        match head[3] {
            // The first of two says only that the server is about to stop.
            GOAWAY => seen.lock().goaway = Some(number(4)),
            RST_STREAM => drop(seen.lock().resets.insert(stream, number(0))),
            _ => {}
        }
    }
    seen.lock().is_closed = true;
}
