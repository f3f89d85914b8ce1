//! Who put an issue into a queue, read from what happened to it. Pure: the same events give the same
//! answer. Never takes anybody's word for a right: it only sees to it that a person, or a bot that the
//! operator listed, is behind every start; the job asks whether they may.

use chrono::{DateTime, Utc};

use super::source::Asked;
use crate::github::{Account, BodyEdits, Issue, IssueEvent};
use crate::ids::{AppId, UserId};
use crate::job::Actor;

/// The account that GitHub shows in place of deleted ones.
const GHOST: UserId = UserId(10137);

/// Whom we listen to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners {
    /// Our App.
    pub app_id: Option<AppId>,
    /// Login of our bot, `<slug>[bot]`.
    pub bot_login: String,
    /// Other Apps whose acts count.
    pub allowed_apps: Vec<AppId>,
}

impl Listeners {
    /// Who did something, or why nobody did whose act counts. W4, W7, T1.
    pub(super) fn hear(&self, account: Option<&Account>, app: Option<AppId>) -> Result<Actor, String> {
        let Some(account) = account.filter(|account| account.id != GHOST) else {
            return Err("the account of who put it there is deleted".to_owned());
        };
        let login = &account.login;
        let is_bot = account.kind == "Bot" || login.ends_with("[bot]");
        if app.is_some() && app == self.app_id || *login == self.bot_login {
            return Err("we put it there ourselves".to_owned());
        }
        match app {
            Some(app) if !self.allowed_apps.contains(&app) => {
                return Err(format!(
                    "{login} put it there through an App that is not in github.allowed_apps"
                ));
            }
            None if is_bot => return Err(format!("{login} is a bot that is not in github.allowed_apps")),
            None if account.kind != "User" => return Err(format!("{login} is not a person")),
            _ => {}
        }
        Ok(Actor {
            id: account.id,
            login: login.clone(),
            is_bot,
        })
    }

    /// The author of an issue, for a queue of whatever a search finds.
    pub(super) fn author(&self, issue: &Issue) -> Asked {
        let app = issue.performed_via_github_app.as_ref().map(|app| app.id);
        let at = issue.created_at.unwrap_or(issue.updated_at);
        match self.hear(issue.user.as_ref(), app) {
            Ok(actor) => Asked::By { actor, at },
            Err(why) => Asked::Nobody { why, at: Some(at) },
        }
    }

    /// Whoever let the issue come under a label or into a milestone last.
    pub(super) fn putter(&self, events: &[IssueEvent], came: impl Fn(&IssueEvent) -> bool, what: &str) -> Asked {
        let Some(event) = events.iter().rev().find(|event| came(event)) else {
            return Asked::NotTold(format!("GitHub has not told yet who {what}"));
        };
        let app = event.performed_via_github_app.as_ref().map(|app| app.id);
        match self.hear(event.actor.as_ref(), app) {
            Ok(actor) => Asked::By {
                actor,
                at: event.created_at,
            },
            Err(why) => Asked::Nobody {
                why,
                at: Some(event.created_at),
            },
        }
    }
}

/// P08: work is asked for on the text that the asker saw. What they changed themselves they saw;
/// when anybody else changed it since, nobody asked for it. GitHub tells whole seconds, so a change
/// in the same second counts as later.
pub(super) fn unchanged_since(asked: Asked, events: &[IssueEvent], edits: &BodyEdits, again: &str) -> Asked {
    let Asked::By { actor, at } = asked else {
        return asked;
    };
    let renames = events.iter().filter(|event| event.event == "renamed");
    let renames = renames.map(|event| (event.created_at, event.actor.as_ref().map(|actor| actor.id)));
    let changes = edits.edits.iter().map(|edit| (edit.at, edit.by));
    let later: Vec<(DateTime<Utc>, Option<UserId>)> = renames.chain(changes).filter(|(when, _)| *when >= at).collect();
    let is_hidden = edits.last_at.is_some_and(|last| last >= at) && edits.has_more;
    if is_hidden || later.iter().any(|(_, by)| *by != Some(actor.id)) {
        let at = later.iter().map(|(when, _)| *when).max().or(edits.last_at);
        return Asked::Nobody {
            why: format!("its text was changed after {} put it there; {again}", actor.login),
            at,
        };
    }
    let at = later.iter().map(|(when, _)| *when).fold(at, DateTime::max);
    Asked::By { actor, at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::github::{AppRef, BodyEdit, Label};

    fn account(id: u64, login: &str, kind: &str) -> Account {
        Account {
            id: UserId(id),
            login: login.to_owned(),
            kind: kind.to_owned(),
        }
    }

    fn listeners() -> Listeners {
        Listeners {
            app_id: Some(AppId(1)),
            bot_login: "forgehand[bot]".to_owned(),
            allowed_apps: vec![AppId(7)],
        }
    }

    #[track_caller]
    fn check(account: Option<Account>, app: Option<u64>, expected: &str) {
        let heard = listeners().hear(account.as_ref(), app.map(AppId));
        let said = heard.map_or_else(|why| why, |actor| format!("{} {}", actor.id, actor.is_bot));
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn w4_w7_t1_only_people_and_listed_apps_ask() {
        check(Some(account(5, "mona", "User")), None, "5 false");
        check(Some(account(5, "mona", "User")), Some(7), "5 false");
        check(Some(account(5, "mona", "User")), Some(8), "not in github.allowed_apps");
        check(Some(account(5, "mona", "User")), Some(1), "ourselves");
        check(None, None, "deleted");
        check(Some(account(10137, "ghost", "User")), None, "deleted");
        check(Some(account(6, "helper[bot]", "Bot")), Some(7), "6 true");
        check(Some(account(6, "helper[bot]", "Bot")), None, "a bot that is not in");
        check(Some(account(6, "Copilot", "Bot")), None, "a bot that is not in");
        check(Some(account(6, "forgehand[bot]", "Bot")), None, "ourselves");
        check(Some(account(6, "octo", "Organization")), None, "is not a person");
    }

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_000 + second, 0).unwrap()
    }

    fn event(name: &str, by: u64, second: i64) -> IssueEvent {
        IssueEvent {
            event: name.to_owned(),
            actor: Some(account(by, "mona", "User")),
            performed_via_github_app: None::<AppRef>,
            created_at: at(second),
            label: Some(Label {
                name: "ready".to_owned(),
            }),
            milestone: None,
        }
    }

    #[test]
    fn p08_only_who_asked_may_change_the_text_afterwards() {
        let edits = |list: &[(u64, i64)]| BodyEdits {
            last_at: list.iter().map(|(_, second)| at(*second)).max(),
            edits: list
                .iter()
                .map(|(by, second)| BodyEdit {
                    at: at(*second),
                    by: Some(UserId(*by)),
                })
                .collect(),
            has_more: false,
        };
        let check = |events: &[IssueEvent], edits: &BodyEdits, expected: Option<i64>| {
            let came = |event: &IssueEvent| event.event == "labeled";
            let asked = listeners().putter(events, came, "labelled it");
            let found = match unchanged_since(asked, events, edits, "ask again") {
                Asked::By { at, .. } => Some(at.timestamp() - 1_000),
                _ => None,
            };
            assert_eq!(found, expected, "{events:?} {edits:?}");
        };
        let labelled = event("labeled", 5, 10);
        check(std::slice::from_ref(&labelled), &BodyEdits::default(), Some(10));
        check(std::slice::from_ref(&labelled), &edits(&[(9, 3), (9, 0)]), Some(10));
        check(std::slice::from_ref(&labelled), &edits(&[(9, 10)]), None);
        check(std::slice::from_ref(&labelled), &edits(&[(5, 12), (9, 3)]), Some(12));
        check(std::slice::from_ref(&labelled), &edits(&[(5, 12), (9, 11)]), None);
        check(
            &[labelled.clone(), event("renamed", 9, 20)],
            &BodyEdits::default(),
            None,
        );
        check(
            &[labelled.clone(), event("renamed", 5, 20)],
            &BodyEdits::default(),
            Some(20),
        );
        check(
            &[event("renamed", 9, 8), labelled.clone(), event("labeled", 5, 30)],
            &edits(&[(9, 20)]),
            Some(30),
        );
        let hidden = BodyEdits {
            last_at: Some(at(11)),
            edits: Vec::new(),
            has_more: true,
        };
        check(&[labelled], &hidden, None);
    }
}
