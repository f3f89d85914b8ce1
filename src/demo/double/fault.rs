//! What can go wrong between us and GitHub, on order: for requests that match, so many times.
//! Called by `server` and by tests. Never strikes unasked.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::GitHubDouble;

/// How a request goes wrong.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Nothing is done; this status, these headers and this body are answered.
    Status(u16, Vec<(String, String)>, String),
    /// Nothing is done and the connection breaks.
    ResetBeforeApply,
    /// It is done, but the connection breaks before the answer.
    ApplyThenReset,
    /// It is done, but no answer ever comes.
    ApplyThenHang,
    /// It is done, but this status, these headers and this body are answered.
    ApplyThenStatus(u16, Vec<(String, String)>, String),
    /// Nothing is done and no answer ever comes.
    Hang,
    /// Lists do not show what was created within this time.
    StaleList(Duration),
    /// The connection breaks now, and the request arrives when this time has passed, by GitHub's clock.
    /// Not for git, where it is as [`Fault::ResetBeforeApply`].
    ApplyLate(Duration),
    /// It is done, but the connection breaks in the middle of the answer.
    ApplyThenCut,
    /// It is done, and the answer comes in small pieces over this time.
    ApplyThenTrickle(Duration),
}

impl Fault {
    /// A status with GitHub's JSON and no headers.
    pub fn status(status: u16, message: &str) -> Self {
        let body = serde_json::json!({ "message": message }).to_string();
        Fault::Status(status, Vec::new(), body)
    }
}

/// A standing order.
#[derive(Debug)]
pub(super) struct Rule {
    pattern: String,
    fault: Fault,
    times: u32,
}

impl Rule {
    fn matches(&self, method: &str, path: &str) -> bool {
        let Some((wanted_method, pattern)) = self.pattern.split_once(' ') else {
            return false;
        };
        if wanted_method != "*" && wanted_method != method {
            return false;
        }
        let mut parts = path.split('/');
        for wanted in pattern.split('/') {
            match (wanted, parts.next()) {
                ("**", _) => return true,
                ("*", Some(_)) => {}
                (wanted, Some(part)) if wanted == part => {}
                _ => return false,
            }
        }
        parts.next().is_none()
    }
}

/// An answer that is to be held back.
#[derive(Debug)]
pub(super) struct Hold {
    /// Requests before it, and itself.
    left: u32,
    reached: CancellationToken,
    release: CancellationToken,
}

/// An answer that is held back until it is released, as long as somebody has this.
#[derive(Debug)]
pub struct HeldAnswer {
    reached: CancellationToken,
    release: CancellationToken,
}

impl HeldAnswer {
    /// Returns when its request was done.
    pub async fn reached(&self) {
        self.reached.cancelled().await;
    }
}

impl Drop for HeldAnswer {
    fn drop(&mut self) {
        self.release.cancel();
    }
}

/// Counts a request, and gives the order to hold its answer back.
pub(super) fn hold(holds: &mut Vec<Hold>) -> Option<Hold> {
    for hold in holds.iter_mut() {
        hold.left = hold.left.saturating_sub(1);
    }
    let found = holds.iter().position(|hold| hold.left == 0)?;
    Some(holds.remove(found))
}

impl Hold {
    /// The request is done; waits until its answer may be sent.
    pub(super) async fn wait(self, stop: &CancellationToken) {
        self.reached.cancel();
        tokio::select! {
            () = self.release.cancelled() => {}
            () = stop.cancelled() => {}
        }
    }
}

/// The first standing order for this request, used up by one.
pub(super) fn strike(rules: &mut Vec<Rule>, method: &str, path: &str) -> Option<Fault> {
    let found = rules.iter().position(|rule| rule.matches(method, path))?;
    let fault = rules[found].fault.clone();
    rules[found].times -= 1;
    if rules[found].times == 0 {
        rules.remove(found);
    }
    Some(fault)
}

impl GitHubDouble {
    /// Lets the next `times` requests that match go wrong. A pattern is a method and a path
    /// (`POST /repos/octo/widgets/issues/*/comments`); `*` stands for one part of the path or for
    /// any method, `**` for all the rest. Git is reached under `/octo/widgets.git/**`.
    pub fn fault(&self, pattern: &str, fault: Fault, times: u32) {
        if times > 0 {
            let pattern = pattern.to_owned();
            self.lock().faults.push(Rule { pattern, fault, times });
        }
    }

    /// Holds back the answer to the `nth` request of the API from now on, counted from 1.
    pub fn hold_answer(&self, nth: u32) -> HeldAnswer {
        let (reached, release) = (CancellationToken::new(), CancellationToken::new());
        self.lock().holds.push(Hold {
            left: nth.max(1),
            reached: reached.clone(),
            release: release.clone(),
        });
        HeldAnswer { reached, release }
    }

    /// Lets arrive what was on its way until now ([`Fault::ApplyLate`]). Any other request does so too.
    pub async fn land_late(&self) {
        super::server::land(self).await;
    }

    /// How many requests are still on their way.
    pub fn under_way(&self) -> usize {
        self.lock().late.len()
    }

    /// Takes all standing orders back.
    pub fn clear_faults(&self) {
        let mut state = self.lock();
        state.faults.clear();
        state.holds.clear();
    }

    /// Patterns of orders that are not used up, so that a test notices a fault that never struck.
    pub fn unused_faults(&self) -> Vec<String> {
        self.lock().faults.iter().map(|rule| rule.pattern.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_part_by_part() {
        for (pattern, matches) in [
            ("POST /repos/o/r/issues/*/comments", true),
            ("* /repos/**", true),
            ("GET /repos/**", false),
            ("POST /repos/o/r/issues/*", false),
            ("POST /repos/o/r/issues/*/comments/*", false),
        ] {
            let rule = Rule {
                pattern: pattern.to_owned(),
                fault: Fault::Hang,
                times: 1,
            };
            assert_eq!(
                rule.matches("POST", "/repos/o/r/issues/7/comments"),
                matches,
                "{pattern}"
            );
        }
    }
}
