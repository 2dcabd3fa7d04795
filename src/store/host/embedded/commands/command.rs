//! A command: its name, its number of words, and what it does to keys.

use super::super::{
    engine::Engine,
    reply::{Refusal, Reply},
};

/// A command.
#[derive(Debug)]
pub(in super::super) struct Command {
    pub(super) name: &'static str,
    /// Words, the name included; negative: the least.
    arity: i8,
    effect: Effect,
    /// Gets the words after the name.
    pub(super) run: fn(&mut Engine, &[&[u8]]) -> Result<Reply, Refusal>,
}

/// What a command does to the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Changes none.
    Reads,
    /// Changes some and needs no memory for it.
    Writes,
    /// May need memory: refused when there is none.
    Grows,
}

// === impl Command ===

impl Command {
    pub(super) const fn new(
        name: &'static str,
        arity: i8,
        effect: Effect,
        run: fn(&mut Engine, &[&[u8]]) -> Result<Reply, Refusal>,
    ) -> Self {
        Self {
            name,
            arity,
            effect,
            run,
        }
    }

    /// Whether it accepts this number of words, its name included.
    pub(in super::super) fn takes(&self, words: usize) -> bool {
        let arity = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 {
            words >= arity
        } else {
            words == arity
        }
    }

    pub(super) fn writes(&self) -> bool {
        self.effect != Effect::Reads
    }

    pub(super) fn needs_memory(&self) -> bool {
        self.effect == Effect::Grows
    }
}
