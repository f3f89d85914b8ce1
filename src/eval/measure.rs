//! Figures from the ranks of right answers. Pure arithmetic. Never averages over cases that have no
//! right answer.

use serde::Serialize;

/// How good an order is, over many cases; all in per cent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Measure {
    /// Number of cases.
    pub cases: usize,
    /// Cases in which all right answers are among the first 1, 5 and 10.
    pub acc: [f64; 3],
    /// Cases in which one of them is.
    pub hit: [f64; 3],
    /// Share of right answers among the first 1, 5 and 10.
    pub recall: [f64; 3],
    /// Mean of one through the rank of the first right answer.
    pub mrr: f64,
}

const DEPTHS: [usize; 3] = [1, 5, 10];

impl Measure {
    /// From the ranks, from 1, of each case's right answers; nothing for one that was not found.
    pub fn of(cases: &[Vec<Option<usize>>]) -> Self {
        let cases: Vec<_> = cases.iter().filter(|ranks| !ranks.is_empty()).collect();
        let mut measure = Self {
            cases: cases.len(),
            ..Self::default()
        };
        let share = 100.0 / cases.len().max(1) as f64;
        for ranks in cases {
            for (at, depth) in DEPTHS.into_iter().enumerate() {
                let within = ranks.iter().flatten().filter(|rank| **rank <= depth).count();
                measure.acc[at] += if within == ranks.len() { share } else { 0.0 };
                measure.hit[at] += if within > 0 { share } else { 0.0 };
                measure.recall[at] += share * within as f64 / ranks.len() as f64;
            }
            let first = ranks.iter().flatten().min();
            measure.mrr += first.map_or(0.0, |rank| share / *rank as f64);
        }
        measure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_right_answers_have_to_be_found() {
        let measure = Measure::of(&[
            vec![Some(1)],
            vec![Some(2), Some(7)],
            vec![Some(5), None],
            vec![None],
            vec![],
        ]);
        assert_eq!(measure.cases, 4);
        assert_eq!(measure.acc, [25.0, 25.0, 50.0]);
        assert_eq!(measure.hit, [25.0, 75.0, 75.0]);
        assert_eq!(measure.recall, [25.0, 50.0, 62.5]);
        assert!((measure.mrr - 25.0 * (1.0 + 0.5 + 0.2)).abs() < 1e-9);
        assert_eq!(Measure::of(&[]), Measure::default());
    }
}
