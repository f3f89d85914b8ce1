//! Sums of money, in whole millionths of a US dollar so that sums of many small ones are exact, and
//! what a sum can be the cap of. Pure.
//! Never a price, and never a sum that nobody knows: that is `None` of one.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// Millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Usd(i64);

/// More is a mistake; it leaves room for sums.
const MOST: i64 = i64::MAX / 1_000_000;

impl Usd {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// From millionths.
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.clamp(-MOST, MOST))
    }

    /// From cents.
    pub fn from_cents(cents: u64) -> Self {
        let cents = i64::try_from(cents).unwrap_or(MOST);
        Self::from_micros(cents.saturating_mul(10_000))
    }

    /// From dollars, to the nearest millionth; what is no number is nothing.
    pub fn from_dollars(dollars: f64) -> Self {
        Self::from_micros((dollars * 1e6).round() as i64)
    }

    /// In millionths.
    pub fn micros(self) -> i64 {
        self.0
    }

    /// In dollars, for what counts in them.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Which part of another sum this is; anything is all of nothing.
    pub fn share_of(self, whole: Self) -> f64 {
        if whole.0 > 0 {
            self.0 as f64 / whole.0 as f64
        } else {
            1.0
        }
    }
}

/// Of what a cap says the most it may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cap {
    /// One job.
    Job,
    /// All jobs of an issue together.
    Issue,
    /// All jobs of a pull request together.
    Pull,
    /// All jobs in a repository on one day.
    RepositoryDay,
    /// All jobs of an installation on one day.
    InstallationDay,
    /// All jobs of the service on one day.
    ServiceDay,
}

impl Cap {
    /// In a word, as it is stored.
    pub fn word(self) -> &'static str {
        match self {
            Cap::Job => "job",
            Cap::Issue => "issue",
            Cap::Pull => "pull",
            Cap::RepositoryDay => "repository_day",
            Cap::InstallationDay => "installation_day",
            Cap::ServiceDay => "service_day",
        }
    }
}

impl Add for Usd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::from_micros(self.0.saturating_add(other.0))
    }
}

impl Sub for Usd {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::from_micros(self.0.saturating_sub(other.0))
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(sums: I) -> Self {
        sums.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Usd {
    /// To the cent; what is less than a cent with as many places as show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, micros) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        match micros {
            0 => f.write_str("$0.00"),
            1..100 => write!(f, "{sign}$0.{micros:06}"),
            100..10_000 => write!(f, "{sign}$0.{:04}", (micros + 50) / 100),
            _ => {
                let cents = (micros + 5_000) / 10_000;
                write!(f, "{sign}${}.{:02}", cents / 100, cents % 100)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_shown_to_the_cent_or_so_that_something_is_seen() {
        for (micros, shown) in [
            (0, "$0.00"),
            (3, "$0.000003"),
            (340, "$0.0003"),
            (9_999, "$0.0100"),
            (10_000, "$0.01"),
            (1_234_567, "$1.23"),
            (1_995_000, "$2.00"),
            (12_000_000, "$12.00"),
            (-2_500_000, "-$2.50"),
        ] {
            assert_eq!(Usd::from_micros(micros).to_string(), shown);
        }
    }

    #[test]
    fn many_small_sums_are_exact_and_nothing_overflows() {
        let tenth = Usd::from_dollars(0.1);
        assert_eq!((0..10).map(|_| tenth).sum::<Usd>(), Usd::from_cents(100));
        assert_eq!(Usd::from_dollars(f64::NAN), Usd::ZERO);
        assert_eq!(Usd::from_dollars(f64::INFINITY) + tenth, Usd::from_micros(i64::MAX));
        assert!((Usd::from_cents(250).dollars() - 2.5).abs() < 1e-9);
        assert!((tenth.share_of(Usd::ZERO) - 1.0).abs() < 1e-9);
    }
}
