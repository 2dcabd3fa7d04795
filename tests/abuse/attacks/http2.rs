//! Floods of frames.

use super::{Did, strangers::is_taken};
use crate::{
    frames::{CONTINUATION, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, Raw, call, frame, text},
    target::{Tally, Target},
};

/// Floods on new connections, some at a time.
pub(crate) async fn floods<I>(
    target: &Target,
    connections: usize,
    reads: bool,
    frames: impl Fn() -> I,
) -> Tally
where
    I: Iterator<Item = Vec<u8>>,
{
    target
        .storm(connections, |_| async {
            let mut raw = Raw::open_with(target.address, &[], reads).await;
            is_taken(raw.flood(frames()).await)
        })
        .await
}

/// Calls that are cancelled at once.
pub(crate) async fn rapid_reset(target: Target) -> Did {
    const CALLS: u32 = 20_000;
    let floods = floods(&target, 4, true, || {
        let block = call("TryAcquire");
        (0..CALLS).map(move |number| {
            let stream = 2 * number + 1;
            let mut pair = frame(HEADERS, END_HEADERS, stream, &block);
            pair.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
            pair
        })
    });
    let floods = floods.await;
    match floods.done() {
        0 => Ok(format!("floods of {CALLS} resets: {floods}")),
        taken => Err(format!("{taken} floods of resets were taken to their end")),
    }
}

/// Headers that never end.
pub(crate) async fn continuations(target: Target) -> Did {
    const PARTS: u32 = 10_000;
    let floods = floods(&target, 4, true, || {
        let mut part = vec![0x00];
        text(&mut part, "x-more");
        text(&mut part, &"x".repeat(8000));
        let first = frame(HEADERS, END_STREAM, 1, &call("TryAcquire"));
        let more = (0..PARTS).map(move |_| frame(CONTINUATION, 0, 1, &part));
        std::iter::once(first).chain(more)
    });
    let floods = floods.await;
    match floods.done() {
        0 => Ok(format!("floods of {PARTS} parts of headers: {floods}")),
        taken => Err(format!("{taken} floods of headers were taken to their end")),
    }
}
