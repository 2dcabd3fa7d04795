//! What all layers use: [`tasks`] spawns and stops work, [`metrics`] and [`spans`] make it visible,
//! [`threads`] and [`busy_poll`] schedule it, [`signals`] says what may not end it.

pub mod busy_poll;
pub mod metrics;
pub mod signals;
pub mod spans;
pub mod tasks;
pub mod threads;
