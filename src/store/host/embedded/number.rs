//! Numbers as Redis reads and writes them.

use super::reply::Refusal;

/// Reads an integer. Only what Redis would write itself is one: no spaces, no plus, no leading
/// zeros.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if canonical {
        str::from_utf8(text).ok()?.parse().ok()
    } else {
        None
    }
}

/// Reads an integer argument.
pub(super) fn integer_argument(text: &[u8]) -> Result<i64, Refusal> {
    integer(text).ok_or(Refusal::NOT_AN_INTEGER)
}

/// Reads a score. Not a number, and numbers too large or too small for a double, are none; infinity
/// must be spelled out.
pub(super) fn score(text: &[u8]) -> Result<f64, Refusal> {
    const INVALID: Refusal = Refusal::new("ERR value is not a valid float");
    let text = str::from_utf8(text).map_err(|_| INVALID)?;
    let number: f64 = text.parse().map_err(|_| INVALID)?;
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let overflowed = number.is_infinite() && text.contains(|c: char| c.is_ascii_digit());
    let underflowed = number == 0.0 && mantissa.contains(|c: char| ('1'..='9').contains(&c));
    if number.is_nan() || overflowed || underflowed {
        Err(INVALID)
    } else {
        Ok(number)
    }
}

/// Writes a double with the fewest of 17 significant digits, as C does with `%.17g`.
pub(super) fn double(number: f64) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() {
            "-nan"
        } else {
            "nan"
        }
        .to_owned();
    } else if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..17).contains(&exponent) {
        let decimals = usize::try_from(16 - exponent).unwrap_or_default();
        trim(&format!("{number:.decimals$}")).to_owned()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
    }
}

/// Takes the zeros off that end a fraction.
fn trim(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        let good = [
            ("0", 0),
            ("-1", -1),
            ("9223372036854775807", i64::MAX),
            ("10", 10),
        ];
        for (text, number) in good {
            assert_eq!(integer(text.as_bytes()), Some(number), "{text}");
        }
        for text in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "9223372036854775808",
        ] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn doubles() {
        let cases = [
            (0.1, "0.10000000000000001"),
            (3.0, "3"),
            (-1.5, "-1.5"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e20, "1e+20"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (f64::NEG_INFINITY, "-inf"),
            (-0.0, "-0"),
        ];
        for (number, text) in cases {
            assert_eq!(double(number), text);
        }
    }

    #[test]
    fn scores() {
        assert_eq!(score(b"+inf"), Ok(f64::INFINITY));
        assert_eq!(score(b"-0.5e1"), Ok(-5.0));
        for text in ["", "nan", "1e400", "1e-400", " 1", "1x"] {
            assert!(score(text.as_bytes()).is_err(), "{text}");
        }
    }
}
