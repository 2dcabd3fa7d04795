//! A ring of what happened last, within fixed memory.

use std::{
    collections::{HashMap, VecDeque},
    time::{SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::types::SessionId;

/// Events that are kept.
const EVENTS_MAX: usize = 10_000;

/// Bytes of names, owners, notes and reasons that are kept.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// Sessions that have ended and whose client names are kept.
const CLIENTS_MAX: usize = 10_000;

/// Room for them that never grows, although entries that come and go leave gaps. What is allocated
/// while many sessions end lies among their memory, and keeps it from going back.
const CLIENTS_ROOM: usize = 2 * CLIENTS_MAX;

/// Events that a reader copies at once; grants wait for it.
const COPIED_AT_ONCE: usize = 256;

/// Keeps the last events, and the client names of the sessions that ended last.
#[derive(Debug)]
pub(crate) struct History<E>(Mutex<State<E>>);

#[derive(Debug)]
struct State<E> {
    events: VecDeque<Kept<E>>,
    text_bytes: usize,
    /// The number of the last event.
    last: u64,
    /// Up to which number events have been replaced by copies.
    copied: u64,
    clients: HashMap<Uuid, Box<str>>,
    ended: VecDeque<Uuid>,
}

/// An event of the past.
#[derive(Clone, Debug)]
pub(crate) struct Kept<E> {
    /// Numbers the events of a process, from 1.
    pub(crate) number: u64,
    /// By this machine's clock, since 1970.
    pub(crate) unix_millis: u64,
    pub(crate) event: E,
    text_bytes: usize,
}

// === impl History ===

impl<E: Clone> History<E> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State {
            events: VecDeque::with_capacity(EVENTS_MAX),
            text_bytes: 0,
            last: 0,
            copied: 0,
            clients: HashMap::with_capacity(CLIENTS_ROOM),
            ended: VecDeque::with_capacity(CLIENTS_MAX + 1),
        }))
    }

    /// Keeps an event that refers to so many bytes of text, and drops the oldest
    /// ones that exceed the memory.
    pub(crate) fn keep(&self, event: E, text_bytes: usize) {
        let unix_millis = unix_millis();
        let mut state = self.0.lock();
        let state = &mut *state;
        state.text_bytes += text_bytes;
        while state.events.len() >= EVENTS_MAX || state.text_bytes > TEXT_BYTES_MAX {
            let Some(oldest) = state.events.pop_front() else {
                break;
            };
            state.text_bytes -= oldest.text_bytes;
        }
        state.last += 1;
        state.events.push_back(Kept {
            number: state.last,
            unix_millis,
            event,
            text_bytes,
        });
    }

    /// Replaces each event up to this number by a copy, once.
    pub(crate) fn replace(&self, up_to: u64, copy: impl Fn(&E) -> E) {
        loop {
            let mut state = self.0.lock();
            let state = &mut *state;
            let begin = state.events.partition_point(|it| it.number <= state.copied);
            let end = state.events.partition_point(|it| it.number <= up_to);
            let replaced = state.events.range_mut(begin..end.max(begin));
            for kept in replaced.take(COPIED_AT_ONCE) {
                kept.event = copy(&kept.event);
                state.copied = kept.number;
            }
            if end <= begin + COPIED_AT_ONCE {
                return;
            }
        }
    }

    /// Keeps the client name of a session that has ended.
    pub(crate) fn keep_client(&self, id: &SessionId, name: &str) {
        if name.is_empty() {
            return;
        }
        let id = id.uuid();
        let mut state = self.0.lock();
        if state.clients.insert(id, name.into()).is_some() {
            return;
        }
        state.ended.push_back(id);
        if state.ended.len() > CLIENTS_MAX
            && let Some(oldest) = state.ended.pop_front()
        {
            state.clients.remove(&oldest);
        }
    }

    pub(crate) fn last(&self) -> u64 {
        self.0.lock().last
    }

    pub(crate) fn client_name(&self, id: &SessionId) -> Option<String> {
        let state = self.0.lock();
        let name = state.clients.get(&id.uuid())?;
        Some(name.to_string())
    }

    /// The newest events before a number, newest first.
    pub(crate) fn copy(&self, before: u64) -> VecDeque<Kept<E>> {
        let state = self.0.lock();
        let end = state.events.partition_point(|kept| kept.number < before);
        let newest = state.events.range(..end).rev();
        newest.take(COPIED_AT_ONCE).cloned().collect()
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "people read it; nothing is decided by it"
)]
fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All kept events, newest first.
    fn all(history: &History<String>) -> Vec<(u64, String)> {
        let mut all = Vec::new();
        let mut before = u64::MAX;
        loop {
            let part = history.copy(before);
            let Some(oldest) = part.back() else {
                return all;
            };
            before = oldest.number;
            all.extend(part.into_iter().map(|it| (it.number, it.event)));
        }
    }

    #[test]
    fn the_last_events_are_kept_in_order_and_the_oldest_are_dropped() {
        let history = History::new();
        assert_eq!(history.last(), 0);
        for number in 1..=EVENTS_MAX + 5 {
            history.keep(format!("n{number}"), 6);
        }
        let kept = all(&history);
        assert_eq!(kept.len(), EVENTS_MAX);
        assert_eq!(kept[0], (10_005, "n10005".to_owned()));
        assert_eq!(kept[EVENTS_MAX - 1], (6, "n6".to_owned()));
        assert!(kept.windows(2).all(|pair| pair[0].0 == pair[1].0 + 1));
        assert_eq!(history.last(), 10_005);
    }

    #[test]
    fn long_names_take_the_room_of_several_short_ones() {
        let history = History::new();
        for _ in 0..EVENTS_MAX {
            history.keep("long".to_owned(), 1 << 10);
        }
        assert_eq!(all(&history).len(), TEXT_BYTES_MAX >> 10);
        history.keep("twice".to_owned(), 2 << 10);
        assert_eq!(all(&history).len(), (TEXT_BYTES_MAX >> 10) - 1);
        for _ in 0..EVENTS_MAX {
            history.keep("short".to_owned(), 1);
        }
        assert_eq!(all(&history).len(), EVENTS_MAX);
        assert_eq!(history.0.lock().text_bytes, EVENTS_MAX);
    }

    #[test]
    fn events_that_stay_for_a_while_are_replaced_by_copies_once() {
        let history = History::new();
        let replace = |up_to| history.replace(up_to, |event| format!("{event}'"));
        let count = 3 * COPIED_AT_ONCE;
        (0..count).for_each(|_| history.keep("it".to_owned(), 0));
        let copies = || {
            let events = all(&history).into_iter().rev();
            events.take_while(|(_, event)| event == "it'").count()
        };
        for (up_to, expected) in [(0, 0), (1, 1), (1, 1), (count as u64, count), (1, count)] {
            replace(up_to);
            assert_eq!(copies(), expected, "up to {up_to}");
        }
        (0..EVENTS_MAX).for_each(|_| history.keep("it".to_owned(), 0));
        assert_eq!(copies(), 0);
        replace(u64::MAX);
        assert_eq!(copies(), EVENTS_MAX);
    }

    #[test]
    fn client_names_of_ended_sessions_are_kept_within_a_limit() {
        let history = History::<()>::new();
        let ids: Vec<_> = (0..=CLIENTS_MAX).map(|_| SessionId::random()).collect();
        for id in &ids {
            history.keep_client(id, "billing");
            history.keep_client(id, "billing");
        }
        assert_eq!(history.client_name(&ids[0]), None);
        assert_eq!(history.client_name(&ids[1]).as_deref(), Some("billing"));
        let state = history.0.lock();
        assert_eq!(
            (state.clients.len(), state.ended.len()),
            (CLIENTS_MAX, CLIENTS_MAX)
        );
    }
}
