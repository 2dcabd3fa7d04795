//! The checker itself: histories that keep the rules, and such that break each of them.
