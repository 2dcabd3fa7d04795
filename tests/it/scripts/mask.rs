//! Hides from what a store answers that which differs each time: what comes of its clock.

use std::ops::Range;

use lockkeeper_store::host::Value;

/// The times and tokens of one store, from a moment on.
#[derive(Debug)]
pub(super) struct Mask {
    /// What the clock can have shown meanwhile.
    times: Range<i64>,
    tokens: Vec<i64>,
    /// How much smaller a token may be than one before it, of another name.
    behind: i64,
}

/// The coordinator knows the store's clock to this, and makes tokens of names of which it knows the
/// counter.
const BEHIND_MICROS_MAX: i64 = 50_000;

/// More than any test takes.
const HOUR_MICROS: i64 = 3_600_000_000;

/// Times are multiples of this, and shown rounded up to such, so that a slow machine sees the same.
const STEP_MS: u64 = 100_000;

/// A token later than any clock of a test shows, so that the next one is known.
pub(super) const SEEDED: i64 = 4_000_000_000_000_000;

// === impl Mask ===

impl Mask {
    pub(super) fn new(began_at_micros: i64) -> Self {
        Self {
            times: began_at_micros..began_at_micros + HOUR_MICROS,
            tokens: Vec::new(),
            behind: 0,
        }
    }

    /// Of calls for several names, whose tokens grow each by themselves.
    pub(super) fn of_several_names(began_at_micros: i64) -> Self {
        Self {
            behind: BEHIND_MICROS_MAX,
            ..Self::new(began_at_micros)
        }
    }

    /// Whether the store's clock can have shown this.
    pub(super) fn is_time(&self, micros: i64) -> bool {
        self.times.contains(&micros)
    }

    /// The token that is shown as `T` and this place.
    pub(super) fn token(&self, place: usize) -> u64 {
        self.tokens[place - 1].unsigned_abs()
    }

    /// A reply, also if it stands in a text; arrays as pairs.
    pub(super) fn shown(&mut self, value: &Value) -> String {
        match value {
            Value::Nil => "nil".to_owned(),
            Value::Int(number) => self.number(*number),
            Value::Bytes(bytes) => {
                let text = bytes.escape_ascii().to_string();
                let words = text.split(' ').map(|word| match word.parse() {
                    Ok(number) => self.number(number),
                    Err(_) => word.to_owned(),
                });
                words.collect::<Vec<_>>().join(" ")
            }
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| self.shown(item)).collect();
                let pairs = items.chunks(2).map(|pair| pair.join("="));
                format!("{{{}}}", pairs.collect::<Vec<_>>().join(" "))
            }
        }
    }

    /// A token as its place in the order in which they were first seen, in which each must be
    /// larger than those before; milliseconds; or just a number. One that follows a token which a
    /// story has set is shown as how far it is from that.
    pub(super) fn number(&mut self, number: i64) -> String {
        if self.is_time(number) {
            let place = self.tokens.iter().position(|token| *token == number);
            let place = place.unwrap_or_else(|| {
                let largest = self.tokens.iter().max();
                assert!(
                    largest.is_none_or(|it| *it < number + self.behind),
                    "tokens must grow: {largest:?}, {number}"
                );
                self.tokens.push(number);
                self.tokens.len() - 1
            });
            format!("T{}", place + 1)
        } else if (SEEDED..SEEDED + 1000).contains(&number) {
            format!("t{}", number - SEEDED)
        } else if (1000..1_000_000_000).contains(&number) {
            seconds(number.unsigned_abs())
        } else {
            number.to_string()
        }
    }
}

/// Milliseconds as they are shown.
pub(super) fn seconds(millis: u64) -> String {
    format!("{}s", millis.div_ceil(STEP_MS) * STEP_MS / 1000)
}
