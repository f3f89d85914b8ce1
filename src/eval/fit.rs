//! Weights by which the files that were changed are the likeliest: each case's files are a choice by
//! the exponential of their weighted signals, and the likelihood of what was chosen is climbed; likewise
//! for functions. Called for the leave-one-repository-out figures. Deterministic. Never sees the
//! repository it is used on.

/// How much large weights are held against a fit.
const SHRINKAGE: f64 = 0.001;
/// Steps uphill; the likelihood moves by less than a ten-thousandth in the last of them.
const STEPS: usize = 400;
const STEP: f64 = 0.08;
/// Files or functions of a case that are looked at: those that the shipped weights like most, and the
/// right ones.
const RIVALS: usize = 150;

/// What one case chose from, by `N` signals each.
#[derive(Debug)]
pub(super) struct Choice<const N: usize> {
    /// Signals of each file or function that could be right.
    pub(super) options: Vec<[f32; N]>,
    /// The right ones, by their places in `options`.
    pub(super) gold: Vec<usize>,
    /// Right ones that are no options: counted as not found.
    pub(super) lost: usize,
}

/// The weights that are shipped, and which of them may speak against a file or function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shipped<const N: usize> {
    pub(super) weights: [f32; N],
    pub(super) is_free: [bool; N],
}

/// Weights from these cases.
pub(super) fn fit<'a, const N: usize>(cases: impl Iterator<Item = &'a Choice<N>>, shipped: &Shipped<N>) -> [f32; N] {
    let cases: Vec<_> = cases
        .filter(|case| !case.gold.is_empty())
        .map(|case| rivals(case, shipped))
        .collect();
    let mut weights = [0.3_f64; N];
    // Adam (Kingma and Ba 2015): the signals differ much in how often they say anything.
    let (mut mean, mut square) = ([0.0_f64; N], [0.0_f64; N]);
    for step in 1..=STEPS {
        let gradient = gradient(&cases, &weights);
        for at in 0..N {
            mean[at] = 0.9 * mean[at] + 0.1 * gradient[at];
            square[at] = 0.99 * square[at] + 0.01 * gradient[at] * gradient[at];
            let mean = mean[at] / (1.0 - 0.9_f64.powi(step as i32));
            let square = square[at] / (1.0 - 0.99_f64.powi(step as i32));
            let pace = STEP * (1.0 - step as f64 / (STEPS + 1) as f64);
            weights[at] += pace * mean / (square.sqrt() + 1e-8);
            // More of what was asked for never speaks against a file; its size or age may.
            if !shipped.is_free[at] {
                weights[at] = weights[at].max(0.0);
            }
        }
    }
    weights.map(|weight| weight as f32)
}

/// Ranks, from 1, of what was right in a case, by these weights.
pub(super) fn ranks<const N: usize>(case: &Choice<N>, weights: &[f32; N]) -> Vec<Option<usize>> {
    let scores: Vec<f32> = case.options.iter().map(|signals| score(signals, weights)).collect();
    let rank = |gold: &usize| {
        let own = scores[*gold];
        let better = |(at, score): (usize, &f32)| *score > own || (*score == own && at < *gold);
        let before = scores.iter().enumerate().filter(|(at, score)| better((*at, score)));
        Some(before.count() + 1)
    };
    let mut ranks: Vec<Option<usize>> = case.gold.iter().map(rank).collect();
    ranks.extend(std::iter::repeat_n(None, case.lost));
    ranks
}

fn score<const N: usize>(signals: &[f32; N], weights: &[f32; N]) -> f32 {
    signals
        .iter()
        .zip(weights)
        .map(|(signal, weight)| signal * weight)
        .sum()
}

fn rivals<const N: usize>(case: &Choice<N>, shipped: &Shipped<N>) -> Vec<([f64; N], bool)> {
    let score = |at: usize| score(&case.options[at], &shipped.weights);
    let mut order: Vec<usize> = (0..case.options.len()).collect();
    order.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
    let is_gold = |at: &usize| case.gold.contains(at);
    let kept = order
        .iter()
        .enumerate()
        .filter(|(place, at)| *place < RIVALS || is_gold(at));
    kept.map(|(_, at)| (case.options[*at].map(f64::from), is_gold(at)))
        .collect()
}

fn gradient<const N: usize>(cases: &[Vec<([f64; N], bool)>], weights: &[f64; N]) -> [f64; N] {
    let mut sum = [0.0; N];
    for options in cases {
        let scores: Vec<f64> = options
            .iter()
            .map(|(signals, _)| {
                let weighed = signals.iter().zip(weights).map(|(signal, weight)| signal * weight);
                weighed.sum()
            })
            .collect();
        let top = scores.iter().copied().fold(f64::MIN, f64::max);
        let all: f64 = scores.iter().map(|score| (score - top).exp()).sum();
        let gold = options.iter().filter(|(_, is_gold)| *is_gold).count() as f64;
        for ((signals, is_gold), score) in options.iter().zip(&scores) {
            let wanted = if *is_gold { 1.0 / gold } else { 0.0 };
            let pull = wanted - (score - top).exp() / all;
            for at in 0..N {
                sum[at] += pull * signals[at] / cases.len() as f64;
            }
        }
    }
    for at in 0..N {
        sum[at] -= 2.0 * SHRINKAGE * weights[at];
    }
    sum
}
