//! Numbers as people read them.

use super::{reach::Goal, statistics::Spread};

/// A ratio: enough digits to see on which side of a goal it is.
pub(super) fn ratio(number: f64) -> String {
    match number.abs() {
        100.0.. => format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        0.01.. => format!("{number:.3}"),
        _ => format!("{number:.5}"),
    }
}

/// How many in a second.
pub(super) fn rate(number: f64) -> String {
    grouped(&format!("{number:.0}"))
}

/// Microseconds with the unit that suits them.
pub(super) fn latency(microseconds: f64) -> String {
    if microseconds < 1000.0 {
        format!("{microseconds:.0} µs")
    } else if microseconds < 100_000.0 {
        format!("{:.1} ms", microseconds / 1000.0)
    } else {
        format!("{:.0} ms", microseconds / 1000.0)
    }
}

/// Microseconds of a processor, which are few.
pub(super) fn processor_time(microseconds: f64) -> String {
    format!("{microseconds:.1}")
}

/// Commas between thousands.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `median (least to most)`.
pub(super) fn spread(spread: &Spread, form: fn(f64) -> String) -> String {
    let Spread {
        least,
        median,
        most,
        ..
    } = *spread;
    format!("{} ({} to {})", form(median), form(least), form(most))
}

/// What a ratio should be.
pub(super) fn goal(goal: Goal) -> String {
    match goal {
        Goal::AtLeast(least) => format!("at least {least}"),
        Goal::AtMost(most) => format!("at most {most}"),
        Goal::None => "none".to_owned(),
    }
}

/// Lines of at most so many letters, as all documents have.
const WIDTH: usize = 120;

/// A paragraph in lines.
pub(super) fn wrapped(paragraph: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in paragraph.split(' ') {
        let letters = word.chars().count();
        if width > 0 && width + 1 + letters > WIDTH {
            text.push('\n');
            width = 0;
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += letters;
    }
    text
}

/// Whether it is.
pub(super) fn met(goal: Goal, median: f64) -> &'static str {
    match goal {
        Goal::None => "",
        goal if goal.is_met(median) => "yes",
        Goal::AtLeast(_) | Goal::AtMost(_) => "**no**",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_show_on_which_side_of_a_goal_they_are() {
        assert_eq!(ratio(0.8496), "0.850");
        assert_eq!(ratio(1.104), "1.104");
        assert_eq!(ratio(12.345), "12.3");
        assert_eq!(ratio(523.4), "523");
        assert_eq!(ratio(0.00123), "0.00123");
    }

    #[test]
    fn rates_have_commas() {
        assert_eq!(rate(999.4), "999");
        assert_eq!(rate(1000.0), "1,000");
        assert_eq!(rate(1_234_567.0), "1,234,567");
    }

    #[test]
    fn latencies_have_units() {
        assert_eq!(latency(63.4), "63 µs");
        assert_eq!(latency(1234.0), "1.2 ms");
        assert_eq!(latency(151_234.0), "151 ms");
    }

    #[test]
    fn processor_time_shows_tenths() {
        assert_eq!(processor_time(3.27), "3.3");
        assert_eq!(processor_time(120.0), "120.0");
    }

    #[test]
    fn a_goal_that_is_not_met_stands_out() {
        assert_eq!(met(Goal::AtLeast(3.0), 3.0), "yes");
        assert_eq!(met(Goal::AtLeast(3.0), 2.9), "**no**");
        assert_eq!(met(Goal::AtMost(1.05), 1.05), "yes");
        assert_eq!(met(Goal::AtMost(1.05), 1.06), "**no**");
        assert_eq!(met(Goal::None, 1.06), "");
        assert_eq!(goal(Goal::AtMost(0.02)), "at most 0.02");
        assert_eq!(goal(Goal::AtLeast(10.0)), "at least 10");
    }

    #[test]
    fn paragraphs_are_cut_between_words() {
        let sentence = ["word"; 60].join(" ");
        let lines = wrapped(&sentence);
        assert!(lines.lines().all(|line| line.len() <= WIDTH), "{lines}");
        assert_eq!(lines.lines().count(), 3);
        assert_eq!(lines.replace('\n', " "), sentence);
        assert_eq!(wrapped("one"), "one");
    }

    #[test]
    fn a_spread_goes_from_the_least_to_the_most() {
        let three = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!(spread(&three, ratio), "2.000 (1.000 to 3.000)");
    }
}
