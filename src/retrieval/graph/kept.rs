//! What is kept between questions, up to a weight: a younger and an older half. What is asked for
//! moves to the younger one; when that is full, the older one is forgotten. Called by the graph.
//! Never holds more than its weight, and never forgets what is in use.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// Values by key.
#[derive(Debug)]
pub(super) struct Kept<K, V> {
    young: HashMap<K, (V, usize), RandomState>,
    old: HashMap<K, (V, usize), RandomState>,
    weight: usize,
    max: usize,
}

impl<K: Hash + Eq + Clone, V: Clone> Kept<K, V> {
    /// Keeps values up to this weight, and no more than twice as much for a moment.
    pub(super) fn new(max: usize) -> Self {
        Self {
            young: HashMap::default(),
            old: HashMap::default(),
            weight: 0,
            max,
        }
    }

    /// The value of a key.
    pub(super) fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, (value, weight)) = self.old.remove_entry(key)?;
        self.put(key, value.clone(), weight);
        Some(value)
    }

    /// Keeps a value.
    pub(super) fn put(&mut self, key: K, value: V, weight: usize) {
        if self.weight + weight > self.max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.weight = 0;
        }
        self.weight += weight;
        self.young.insert(key, (value, weight));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut kept = Kept::new(20);
        kept.put("a", 1, 1);
        for round in 0..100 {
            kept.put("b", round, 4);
            kept.put("c", round, 4);
            assert_eq!(kept.get("a"), Some(1), "round {round}");
            assert!(kept.young.len() + kept.old.len() <= 20);
        }
        for number in 0..20 {
            kept.put("d", number, 10);
        }
        assert_eq!(kept.get("a"), None);
        assert_eq!(kept.get("d"), Some(19));
    }
}
