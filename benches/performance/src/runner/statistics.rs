//! Medians and spreads.

/// What several rounds came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) least: f64,
    pub(super) median: f64,
    pub(super) most: f64,
    pub(super) rounds: usize,
}

impl Spread {
    /// None of no numbers, or if one is not finite.
    pub(super) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut numbers: Vec<f64> = numbers.into_iter().collect();
        if numbers.iter().any(|number| !number.is_finite()) {
            return None;
        }
        numbers.sort_by(f64::total_cmp);
        Some(Self {
            least: *numbers.first()?,
            median: median(&numbers)?,
            most: *numbers.last()?,
            rounds: numbers.len(),
        })
    }
}

/// Of an even number the mean of the two in the middle.
fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle_in_whatever_order_they_come() {
        let spread = Spread::of([9.0, 1.0, 4.0]).unwrap();
        assert_eq!(
            spread,
            Spread {
                least: 1.0,
                median: 4.0,
                most: 9.0,
                rounds: 3
            }
        );
    }

    #[test]
    fn of_an_even_number_it_lies_between_two() {
        let spread = Spread::of([4.0, 1.0, 2.0, 9.0]).unwrap();
        assert!((spread.median - 3.0).abs() < f64::EPSILON);
    }

    #[test]
    fn one_round_has_no_spread() {
        let spread = Spread::of([2.5]).unwrap();
        assert_eq!((spread.least, spread.most, spread.rounds), (2.5, 2.5, 1));
    }

    #[test]
    fn nothing_and_what_is_no_number_have_none() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([1.0, f64::NAN]), None);
        assert_eq!(Spread::of([f64::INFINITY]), None);
    }
}
