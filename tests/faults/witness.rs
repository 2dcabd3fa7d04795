//! What the locks protect: one register for each, read and written with a pause between, so that
//! two holders at once lose an update.
//!
//! The unfenced one believes every writer. The fenced one refuses who comes with a smaller token
//! than it has seen.

use parking_lot::Mutex;

use crate::history::Name;

/// The registers of one lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    /// What the unfenced register holds, and how many writes it took.
    pub(crate) unfenced: u64,
    pub(crate) unfenced_writes: u64,
    pub(crate) fenced: u64,
    pub(crate) fenced_writes: u64,
    /// The largest token that the fenced one has seen.
    pub(crate) token: u64,
    /// How many it has refused.
    pub(crate) refused: u64,
}

/// What a holder has read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    unfenced: u64,
    /// None if the register refused it.
    fenced: Option<u64>,
}

/// All registers.
pub(crate) struct Witness(Vec<Mutex<Registers>>);

// === impl Witness ===

impl Witness {
    pub(crate) fn of(names: usize) -> Self {
        Self((0..names).map(|_| Mutex::default()).collect())
    }

    pub(crate) fn read(&self, name: Name, token: u64) -> Read {
        let mut it = self.0[name].lock();
        let fenced = it.admits(token).then_some(it.fenced);
        let unfenced = it.unfenced;
        Read { unfenced, fenced }
    }

    /// Writes one more than was read. Who knows that it may not any more, says so, and the unfenced
    /// register is spared.
    pub(crate) fn write(&self, name: Name, token: u64, read: Read, knows_better: bool) {
        let mut it = self.0[name].lock();
        if !knows_better {
            it.unfenced = read.unfenced + 1;
            it.unfenced_writes += 1;
        }
        if let Some(fenced) = read.fenced
            && it.admits(token)
        {
            it.fenced = fenced + 1;
            it.fenced_writes += 1;
        }
    }

    pub(crate) fn registers(&self) -> Vec<Registers> {
        self.0.iter().map(|it| *it.lock()).collect()
    }
}

// === impl Registers ===

impl Registers {
    fn admits(&mut self, token: u64) -> bool {
        let is_admitted = token >= self.token;
        self.token = self.token.max(token);
        self.refused += u64::from(!is_admitted);
        is_admitted
    }

    /// Updates that are gone, of the unfenced register.
    pub(crate) fn unfenced_lost(&self) -> u64 {
        self.unfenced_writes - self.unfenced
    }

    /// The same of the fenced one.
    pub(crate) fn fenced_lost(&self) -> u64 {
        self.fenced_writes - self.fenced
    }
}

#[test]
fn two_at_once_lose_an_update_and_a_fence_keeps_the_older_one_out() {
    let witness = Witness::of(1);
    let old = witness.read(0, 1);
    let new = witness.read(0, 2);
    witness.write(0, 2, new, false);
    witness.write(0, 1, old, false);
    let after = witness.registers()[0];
    assert_eq!((after.unfenced_lost(), after.fenced_lost()), (1, 0));
    assert_eq!((after.fenced, after.refused), (1, 1));
}

#[test]
fn a_token_that_comes_twice_loses_an_update() {
    let witness = Witness::of(1);
    let reads = [witness.read(0, 7), witness.read(0, 7)];
    for read in reads {
        witness.write(0, 7, read, true);
    }
    let after = witness.registers()[0];
    assert_eq!((after.unfenced_writes, after.fenced_lost()), (0, 1));
}
