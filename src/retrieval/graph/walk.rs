//! Walks along edges: what reaches a symbol, the shortest path of calls between two, the tests that
//! touch one. Breadth first, with a bound on depth, symbols and uses that are looked at.
//! Never goes on without a bound.

use std::collections::{HashMap, HashSet, VecDeque};

use super::edge::Work;
use super::{Certainty, Edge, Graph, SymbolId, Why};
use crate::retrieval::view::FileId;

/// Uses that are looked at for one walk.
const MAX_WALKED: usize = 3000;
/// Uses of one symbol on the way: a name that everything has must not use up the walk.
const MAX_WALKED_OF_ONE: usize = 600;
/// Steps of a path of calls, from both ends together.
const MAX_STEPS: usize = 12;
/// Symbols that a path is looked for among, from each end.
const MAX_PATH_SYMBOLS: usize = 2000;
/// Types that share a method up to which a use of what they implement is followed from one of them.
const MAX_DISPATCH: usize = 4;
/// Calls between a test and what it tests: helpers of tests, a facade, the function itself.
const MAX_TEST_DISTANCE: u32 = 3;

/// What reaches a symbol.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impact {
    /// The nearest first.
    pub reached: Vec<Reached>,
    /// Whether there may be more: the walk came to one of its bounds.
    pub is_cut: bool,
    /// Uses of the symbol itself that are only possible and were not followed.
    pub possible: usize,
}

/// A symbol or file that reaches another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// The file.
    pub file: FileId,
    /// The symbol; nothing at the top of a file.
    pub symbol: Option<SymbolId>,
    /// The line of the use.
    pub line: u32,
    /// Steps to the start.
    pub distance: u32,
    /// What it uses, one step nearer to the start.
    pub via: SymbolId,
    /// How sure the least sure of the steps is.
    pub certainty: Certainty,
    /// Whether it is code of a test.
    pub is_test: bool,
}

impl Graph {
    /// What reaches a symbol over at most `depth` steps, at most `max` of them.
    pub fn impact(&self, of: SymbolId, depth: u32, max: usize) -> Impact {
        let mut impact = Impact::default();
        let mut work = Work { uses: MAX_WALKED };
        let mut seen: HashSet<(FileId, Option<SymbolId>)> = HashSet::from([(of.file, Some(of))]);
        let mut open = VecDeque::from([(of, 0, Certainty::Exact)]);
        while let Some((to, distance, sure)) = open.pop_front() {
            // Guesses are followed for one step only: further on they would be noise.
            let most = if distance == 0 {
                work.uses
            } else {
                work.uses.min(MAX_WALKED_OF_ONE)
            };
            let mut own = Work { uses: most };
            let edges = self.callers_within(to, Certainty::Possible, &mut own);
            work.uses -= most - own.uses;
            impact.is_cut |= edges.unexamined > 0;
            for edge in edges.edges {
                let is_first = distance == 0 && edge.why == Why::Dispatch && edge.among <= MAX_DISPATCH;
                if !is_followed(&edge) && !is_first {
                    impact.possible += usize::from(distance == 0);
                    continue;
                }
                if !seen.insert((edge.file, edge.from)) {
                    continue;
                }
                if impact.reached.len() >= max {
                    impact.is_cut = true;
                    return impact;
                }
                let certainty = edge.certainty.min(sure);
                impact.reached.push(self.reached(&edge, distance + 1, certainty));
                match edge.from {
                    Some(from) if distance + 1 < depth => open.push_back((from, distance + 1, certainty)),
                    Some(_) => impact.is_cut |= distance + 1 >= depth && depth > 1,
                    None => {}
                }
            }
        }
        impact
    }

    fn reached(&self, edge: &Edge, distance: u32, certainty: Certainty) -> Reached {
        Reached {
            file: edge.file,
            symbol: edge.from,
            line: edge.line,
            distance,
            via: edge.to,
            certainty,
            is_test: match edge.from {
                Some(from) => self.is_test(from),
                None => super::is_test_path(self.view().path(edge.file)),
            },
        }
    }

    /// The tests that touch a symbol, nearest first, at most `max`.
    pub fn tests(&self, of: SymbolId, max: usize) -> Impact {
        // Tests are the leaves: what lies between is walked through and left out.
        let mut impact = self.impact(of, MAX_TEST_DISTANCE, MAX_WALKED);
        impact.reached.retain(|reached| reached.is_test);
        impact.is_cut |= impact.reached.len() > max;
        impact.reached.truncate(max);
        impact
    }

    /// A shortest path of calls from one symbol to another: its edges in order. Sure edges first;
    /// edges that are only possible when there is no other way.
    pub fn path(&self, from: SymbolId, to: SymbolId) -> Option<Vec<Edge>> {
        if from == to {
            return Some(Vec::new());
        }
        [Certainty::Likely, Certainty::Possible]
            .into_iter()
            .find_map(|least| Search::new(self, from, to, least).run())
    }
}

fn is_followed(edge: &Edge) -> bool {
    edge.certainty >= Certainty::Likely
}

/// A search from both ends.
struct Search<'g> {
    graph: &'g Graph,
    least: Certainty,
    work: Work,
    /// How each symbol was come to from the start.
    forward: HashMap<SymbolId, Option<Edge>>,
    /// How each symbol goes on to the end.
    backward: HashMap<SymbolId, Option<Edge>>,
    heads: Vec<SymbolId>,
    tails: Vec<SymbolId>,
}

impl<'g> Search<'g> {
    fn new(graph: &'g Graph, from: SymbolId, to: SymbolId, least: Certainty) -> Self {
        Self {
            graph,
            least,
            work: Work { uses: MAX_WALKED },
            forward: HashMap::from([(from, None)]),
            backward: HashMap::from([(to, None)]),
            heads: vec![from],
            tails: vec![to],
        }
    }

    fn run(mut self) -> Option<Vec<Edge>> {
        for _ in 0..MAX_STEPS {
            let is_full = self.forward.len().max(self.backward.len()) > MAX_PATH_SYMBOLS;
            if is_full || self.work.uses == 0 || (self.heads.is_empty() && self.tails.is_empty()) {
                return None;
            }
            // The end with less to do goes on; going forward is cheaper.
            let forward = !self.heads.is_empty() && (self.tails.is_empty() || self.heads.len() <= 4 * self.tails.len());
            let met = if forward {
                self.step_forward()
            } else {
                self.step_backward()
            };
            if let Some(met) = met {
                return Some(self.path(met));
            }
        }
        None
    }

    fn step_forward(&mut self) -> Option<SymbolId> {
        let mut met = None;
        for from in std::mem::take(&mut self.heads) {
            for edge in self.graph.callees_within(from, self.least, &mut self.work).edges {
                let to = edge.to;
                if self.forward.contains_key(&to) {
                    continue;
                }
                // The edge leaves from the symbol that the path came to, of which the function
                // around the call may be only a part.
                let edge = Edge {
                    from: Some(from),
                    ..edge
                };
                self.forward.insert(to, Some(edge));
                self.heads.push(to);
                if met.is_none() && self.backward.contains_key(&to) {
                    met = Some(to);
                }
            }
        }
        met
    }

    fn step_backward(&mut self) -> Option<SymbolId> {
        let mut met = None;
        for to in std::mem::take(&mut self.tails) {
            for edge in self.graph.callers_within(to, self.least, &mut self.work).edges {
                let Some(from) = edge.from else { continue };
                if self.backward.contains_key(&from) {
                    continue;
                }
                self.backward.insert(from, Some(edge));
                self.tails.push(from);
                if met.is_none() && self.forward.contains_key(&from) {
                    met = Some(from);
                }
            }
        }
        met
    }

    fn path(&self, met: SymbolId) -> Vec<Edge> {
        let mut path = Vec::new();
        let mut at = met;
        while let Some(edge) = self.forward.get(&at).and_then(Option::as_ref) {
            path.push(edge.clone());
            let Some(from) = edge.from else { break };
            at = from;
        }
        path.reverse();
        at = met;
        while let Some(edge) = self.backward.get(&at).and_then(Option::as_ref) {
            path.push(edge.clone());
            at = edge.to;
        }
        path
    }
}
