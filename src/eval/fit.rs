//! Weights by which the files that were changed are the likeliest: each case's files are a choice by
//! the exponential of their weighted signals, and the likelihood of what was chosen is climbed. Called
//! for the leave-one-repository-out figure. Deterministic. Never sees the repository it is used on.

use super::observe::Observation;
use crate::retrieval::rank::{SIGNAL_NAMES, SIGNALS, Source, Weights};

/// How much large weights are held against a fit.
const SHRINKAGE: f64 = 0.001;
/// Steps uphill; the likelihood moves by less than a ten-thousandth in the last of them.
const STEPS: usize = 400;
const STEP: f64 = 0.08;
/// Files of a case that are looked at: those that the shipped weights like most, and the right ones.
const RIVALS: usize = 150;

/// Weights from these cases.
pub(super) fn fit<'a>(cases: impl Iterator<Item = &'a Observation>) -> Weights {
    let cases: Vec<Vec<([f64; SIGNALS], bool)>> = cases.filter(|case| !case.gold.is_empty()).map(rivals).collect();
    let mut weights = [0.3_f64; SIGNALS];
    // Adam (Kingma and Ba 2015): the signals differ much in how often they say anything.
    let (mut mean, mut square) = ([0.0_f64; SIGNALS], [0.0_f64; SIGNALS]);
    for step in 1..=STEPS {
        let gradient = gradient(&cases, &weights);
        for at in 0..SIGNALS {
            mean[at] = 0.9 * mean[at] + 0.1 * gradient[at];
            square[at] = 0.99 * square[at] + 0.01 * gradient[at] * gradient[at];
            let mean = mean[at] / (1.0 - 0.9_f64.powi(step as i32));
            let square = square[at] / (1.0 - 0.99_f64.powi(step as i32));
            let pace = STEP * (1.0 - step as f64 / (STEPS + 1) as f64);
            weights[at] += pace * mean / (square.sqrt() + 1e-8);
            // More of what was asked for never speaks against a file; its size or age may.
            if !matches!(SIGNAL_NAMES[at].1, Source::Shape | Source::Recency) {
                weights[at] = weights[at].max(0.0);
            }
        }
    }
    Weights(weights.map(|weight| weight as f32))
}

/// Ranks, from 1, of a case's right files by these weights.
pub(super) fn ranks(case: &Observation, weights: &Weights) -> Vec<Option<usize>> {
    let scores: Vec<f32> = case.signals.iter().map(|signals| score(signals, weights)).collect();
    let rank = |gold: &usize| {
        let own = scores[*gold];
        let better = |(at, score): (usize, &f32)| *score > own || (*score == own && at < *gold);
        Some(
            scores
                .iter()
                .enumerate()
                .filter(|(at, score)| better((*at, score)))
                .count()
                + 1,
        )
    };
    let mut ranks: Vec<Option<usize>> = case.gold.iter().map(rank).collect();
    ranks.extend(std::iter::repeat_n(None, case.lost));
    ranks
}

fn score(signals: &[f32; SIGNALS], weights: &Weights) -> f32 {
    signals
        .iter()
        .zip(weights.0)
        .map(|(signal, weight)| signal * weight)
        .sum()
}

fn rivals(case: &Observation) -> Vec<([f64; SIGNALS], bool)> {
    let shipped = Weights::default();
    let mut order: Vec<usize> = (0..case.signals.len()).collect();
    order.sort_by(|a, b| score(&case.signals[*b], &shipped).total_cmp(&score(&case.signals[*a], &shipped)));
    let is_gold = |at: &usize| case.gold.contains(at);
    let kept = order
        .iter()
        .enumerate()
        .filter(|(place, at)| *place < RIVALS || is_gold(at));
    kept.map(|(_, at)| (case.signals[*at].map(f64::from), is_gold(at)))
        .collect()
}

fn gradient(cases: &[Vec<([f64; SIGNALS], bool)>], weights: &[f64; SIGNALS]) -> [f64; SIGNALS] {
    let mut sum = [0.0; SIGNALS];
    for files in cases {
        let scores: Vec<f64> = files
            .iter()
            .map(|(signals, _)| {
                signals
                    .iter()
                    .zip(weights)
                    .map(|(signal, weight)| signal * weight)
                    .sum()
            })
            .collect();
        let top = scores.iter().copied().fold(f64::MIN, f64::max);
        let all: f64 = scores.iter().map(|score| (score - top).exp()).sum();
        let gold = files.iter().filter(|(_, is_gold)| *is_gold).count() as f64;
        for ((signals, is_gold), score) in files.iter().zip(&scores) {
            let wanted = if *is_gold { 1.0 / gold } else { 0.0 };
            let pull = wanted - (score - top).exp() / all;
            for at in 0..SIGNALS {
                sum[at] += pull * signals[at] / cases.len() as f64;
            }
        }
    }
    for at in 0..SIGNALS {
        sum[at] -= 2.0 * SHRINKAGE * weights[at];
    }
    sum
}
