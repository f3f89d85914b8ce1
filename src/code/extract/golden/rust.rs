//! A small cache of parcels that are on their way. Never keeps more than fits.

use std::collections::{BTreeMap, HashMap as Map, hash_map::Entry};
use std::fmt::{self, Display};
use std::io;

use super::*;
use crate::route::{Leg, plan as plan_route};

extern crate alloc as heap;

mod weight;

pub mod units {
    /// Grams in a pound.
    pub const GRAMS: u32 = 454;

    pub fn pounds(grams: u32) -> u32 {
        grams / GRAMS
    }
}

macro_rules! label {
    ($name:expr) => {
        format!("<{}>", $name)
    };
}

static SEEN: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug, Clone)]
#[allow(dead_code)]
pub struct Parcel<'a, T = ()> {
    pub id: u64,
    owner: &'a str,
    extra: Option<T>,
}

pub enum State {
    Waiting,
    Moving { leg: Leg, since: u64 },
    Done(u64),
}

pub type Parcels<'a> = Vec<Parcel<'a>>;

pub trait Track: Display + fmt::Debug {
    type Error;
    const LIMIT: usize;

    fn track(&mut self, id: u64) -> Result<State, Self::Error>;

    fn missing(&self) -> bool {
        false
    }
}

impl<'a, T> Parcel<'a, T>
where
    T: Clone + Default,
{
    /// A parcel without anything.
    pub fn new(id: u64, owner: &'a str) -> Self {
        const FIRST: u64 = 1;
        let extra = None;
        Self { id: id + FIRST, owner, extra }
    }

    async fn send<F>(self, carrier: &Carrier, done: F) -> io::Result<()>
    where
        F: Fn(&Self) -> bool,
    {
        let legs = plan_route(self.owner, Leg::default).iter().map(Leg::length).collect::<Vec<_>>();
        fn longest(legs: &[u32]) -> u32 {
            legs.iter().copied().max().unwrap_or_default()
        }
        let check = |leg: u32| carrier.can_carry(leg);
        if check(longest(&legs)) && done(&self) {
            carrier.inner.lock().await.push(self.id);
        }
        Ok(())
    }
}

impl<T> Display for Parcel<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", label!(self.owner))
    }
}

impl Track for Depot {
    type Error = io::Error;
    const LIMIT: usize = units::GRAMS as usize;

    fn track(&mut self, id: u64) -> Result<State, io::Error> {
        match self.states.entry(id) {
            Entry::Occupied(entry) => Ok(entry.remove()),
            Entry::Vacant(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

cfg_async! {
    #![all(
        feature = "async",
        unix
    )]
    /// Where parcels wait.
    pub struct Depot {
        states: Map<u64, State>,
    }

    impl Depot {
        pub fn open() -> Self {
            Depot { states: Map::new() }
        }

        cfg_variant! {
            stable: {
                fn close(&mut self) { self.states.clear() }
            },
            unstable: {
                fn close(&mut self) { drain(&mut self.states) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Parcel;

    #[test]
    fn a_parcel_shows_its_owner() {
        let parcel = Parcel::<u8>::new(1, "ada");
        assert_eq!(parcel.to_string(), units::pounds(GRAMS).to_string());
        assert!(matches!(State::Waiting, State::Done(_)));
    }
}
