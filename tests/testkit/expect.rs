//! Of a value that may be of several kinds, the one that is expected.

/// What the pattern binds, or what the variant holds. Panics with what is there instead.
#[macro_export]
macro_rules! expect {
    ($value:expr, $pattern:pat => $it:expr) => {
        match $value {
            $pattern => $it,
            other => panic!("expected {}, got {other:?}", stringify!($pattern)),
        }
    };
    ($value:expr, $variant:path) => {
        match $value {
            $variant(it) => it,
            other => panic!("expected {}, got {other:?}", stringify!($variant)),
        }
    };
}
