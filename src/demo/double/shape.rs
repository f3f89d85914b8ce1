//! The world's records as GitHub's JSON: accounts, repositories, issues, comments, reactions.
//! (Pull requests and reviews are in `view`.) Called by routes and webhooks.
//! Never decides who may see something.

use base64::Engine as _;
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use super::noun::{Comment, Issue, Reaction, Repo};
use super::state::State;

/// GitHub writes times in whole seconds.
pub(super) fn time(at: DateTime<Utc>) -> Value {
    at.to_rfc3339_opts(SecondsFormat::Secs, true).into()
}

/// GitHub's opaque global ids.
pub(super) fn node_id(kind: &str, id: u64) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(format!("{kind}:{id}"))
}

/// Undoes [`node_id`] for one kind of object.
pub(super) fn number_of(kind: &str, node: &str) -> Option<u64> {
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(node).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (named, id) = text.split_once(':')?;
    (named == kind).then(|| id.parse().ok()).flatten()
}

/// Addresses that are the object's own address with a word behind it.
fn links(object: &mut Value, base: &str, words: &[(&str, &str)]) {
    for (name, tail) in words {
        object[*name] = format!("{base}{tail}").into();
    }
}

impl State {
    pub(super) fn api(&self) -> String {
        format!("{}/api/v3", self.origin)
    }

    /// An account; one that was deleted is `null`.
    pub(super) fn shape_account(&self, id: u64) -> Value {
        let Some(account) = self.accounts.get(&id) else {
            return Value::Null;
        };
        let url = format!("{}/users/{}", self.api(), account.login);
        let mut shape = json!({
            "login": account.login,
            "id": account.id,
            "node_id": node_id("User", account.id),
            "avatar_url": format!("{}/avatars/{}", self.origin, account.id),
            "gravatar_id": "",
            "url": url,
            "html_url": format!("{}/{}", self.origin, account.login),
            "type": account.kind,
            "user_view_type": "public",
            "site_admin": false,
        });
        let words = [
            ("followers_url", "/followers"),
            ("following_url", "/following{/other_user}"),
            ("gists_url", "/gists{/gist_id}"),
            ("starred_url", "/starred{/owner}{/repo}"),
            ("subscriptions_url", "/subscriptions"),
            ("organizations_url", "/orgs"),
            ("repos_url", "/repos"),
            ("events_url", "/events{/privacy}"),
            ("received_events_url", "/received_events"),
        ];
        links(&mut shape, &url, &words);
        shape
    }

    /// The App, as objects that it wrote name it.
    pub(super) fn shape_app(&self) -> Value {
        let permissions = &self.installation.permissions;
        let permissions = permissions
            .iter()
            .map(|(name, level)| (name.clone(), level.word().into()));
        json!({
            "id": self.app.id,
            "client_id": format!("Iv1.{}", self.app.id),
            "slug": self.app.slug,
            "node_id": node_id("App", self.app.id),
            "owner": self.shape_account(self.app.owner),
            "name": self.app.name,
            "description": "",
            "external_url": self.origin,
            "html_url": format!("{}/apps/{}", self.origin, self.app.slug),
            "created_at": time(self.app.created_at),
            "updated_at": time(self.app.created_at),
            "permissions": permissions.collect::<serde_json::Map<String, Value>>(),
            "events": super::hooks::EVENTS,
            "installations_count": 1,
        })
    }

    pub(super) fn shape_installation(&self) -> Value {
        let installation = &self.installation;
        let account = self.shape_account(installation.account);
        let api = self.api();
        let now = time(self.app.created_at);
        let app = self.shape_app();
        json!({
            "id": installation.id,
            "account": account,
            "repository_selection": "selected",
            "access_tokens_url": format!("{api}/app/installations/{}/access_tokens", installation.id),
            "repositories_url": format!("{api}/installation/repositories"),
            "html_url": format!("{}/settings/installations/{}", self.origin, installation.id),
            "app_id": self.app.id,
            "app_slug": self.app.slug,
            "target_id": installation.account,
            "target_type": account["type"],
            "permissions": app["permissions"],
            "events": app["events"],
            "created_at": now,
            "updated_at": now,
            "single_file_name": null,
            "suspended_by": null,
            "suspended_at": if installation.suspended { now.clone() } else { Value::Null },
        })
    }

    /// A repository in full; what only `GET /repos/…` adds is harmless elsewhere.
    pub(super) fn shape_repository(&self, id: u64) -> Value {
        let Some(repo) = self.repos.get(&id) else {
            return Value::Null;
        };
        let full_name = repo.full_name();
        let web = format!("{}/{full_name}", self.origin);
        let open = repo.issues.values().filter(|issue| issue.open).count();
        let mut shape = json!({
            "id": repo.id,
            "node_id": node_id("Repository", repo.id),
            "name": repo.name,
            "full_name": full_name,
            "owner": self.owner_of(repo),
            "private": repo.private,
            "visibility": if repo.private { "private" } else { "public" },
            "html_url": web,
            "description": null,
            "fork": repo.parent.is_some(),
            "url": format!("{}/repos/{full_name}", self.api()),
            "git_url": format!("{}.git", web.replacen("http", "git", 1)),
            "ssh_url": format!("git@127.0.0.1:{full_name}.git"),
            "clone_url": format!("{web}.git"),
            "svn_url": web,
            "mirror_url": null,
            "homepage": null,
            "language": null,
            "license": null,
            "topics": [],
            "archived": repo.archived,
            "disabled": false,
            "default_branch": repo.default_branch,
            "open_issues": open,
            "open_issues_count": open,
            "created_at": time(repo.created_at),
            "updated_at": time(repo.created_at),
            "pushed_at": time(repo.created_at),
            "has_issues": true,
            "has_projects": false,
            "has_downloads": true,
            "has_wiki": false,
            "has_pages": false,
            "has_discussions": false,
            "allow_forking": true,
            "is_template": false,
            "web_commit_signoff_required": false,
            "custom_properties": {},
            "master_branch": repo.default_branch,
        });
        for count in [
            "size",
            "forks",
            "forks_count",
            "stargazers",
            "stargazers_count",
            "watchers",
            "watchers_count",
            "network_count",
            "subscribers_count",
        ] {
            shape[count] = 0.into();
        }
        let url = format!("{}/repos/{full_name}", self.api());
        links(&mut shape, &url, &REPOSITORY_LINKS);
        shape
    }

    fn owner_of(&self, repo: &Repo) -> Value {
        let owner = self.account_named(&repo.owner).map(|account| account.id);
        self.shape_account(owner.unwrap_or(0))
    }

    pub(super) fn shape_label(&self, repo: &Repo, name: &str) -> Value {
        let id = repo.labels.get(name).copied().unwrap_or_default();
        json!({
            "id": id,
            "node_id": node_id("Label", id),
            "url": format!("{}/repos/{}/labels/{name}", self.api(), repo.full_name()),
            "name": name,
            "color": "ededed",
            "default": false,
            "description": null,
        })
    }

    pub(super) fn shape_issue(&self, repo: &Repo, issue: &Issue) -> Value {
        let url = format!("{}/repos/{}/issues/{}", self.api(), repo.full_name(), issue.number);
        let pull = repo.pulls.get(&issue.number);
        let kind = if pull.is_some() { "pull" } else { "issues" };
        let comments = repo
            .comments
            .values()
            .filter(|comment| comment.number == issue.number)
            .count();
        let html_url = format!("{}/{}/{kind}/{}", self.origin, repo.full_name(), issue.number);
        let mut shape = json!({
            "id": issue.id,
            "node_id": node_id("Issue", issue.id),
            "url": url,
            "repository_url": format!("{}/repos/{}", self.api(), repo.full_name()),
            "html_url": html_url,
            "number": issue.number,
            "title": issue.title,
            "body": issue.body,
            "user": self.shape_account(issue.author),
            "state": if issue.open { "open" } else { "closed" },
            "state_reason": if issue.open { Value::Null } else { "completed".into() },
            "labels": issue.labels.iter().map(|name| self.shape_label(repo, name)).collect::<Value>(),
            "assignee": null,
            "assignees": [],
            "milestone": issue.milestone.map(|number| self.shape_milestone(repo, number)),
            "locked": false,
            "active_lock_reason": null,
            "comments": comments,
            "author_association": self.association(repo, issue.author),
            "created_at": time(issue.created_at),
            "updated_at": time(issue.updated_at),
            "closed_at": issue.closed_at.map(time),
            "closed_by": null,
            "performed_via_github_app": self.app_of(issue.author),
            "reactions": reaction_counts(&url, &issue.reactions),
        });
        let words = [
            ("labels_url", "/labels{/name}"),
            ("comments_url", "/comments"),
            ("events_url", "/events"),
            ("timeline_url", "/timeline"),
        ];
        links(&mut shape, &url, &words);
        if let Some(pull) = pull {
            shape["draft"] = pull.draft.into();
            shape["pull_request"] = json!({
                "url": format!("{}/repos/{}/pulls/{}", self.api(), repo.full_name(), issue.number),
                "html_url": html_url,
                "diff_url": format!("{html_url}.diff"),
                "patch_url": format!("{html_url}.patch"),
                "merged_at": pull.merged_at.map(time),
            });
        }
        shape
    }

    pub(super) fn shape_comment(&self, repo: &Repo, comment: &Comment) -> Value {
        let api = format!("{}/repos/{}", self.api(), repo.full_name());
        let url = format!("{api}/issues/comments/{}", comment.id);
        let kind = if repo.pulls.contains_key(&comment.number) {
            "pull"
        } else {
            "issues"
        };
        json!({
            "id": comment.id,
            "node_id": node_id("IssueComment", comment.id),
            "url": url,
            "html_url": format!(
                "{}/{}/{kind}/{}#issuecomment-{}", self.origin, repo.full_name(), comment.number, comment.id
            ),
            "issue_url": format!("{api}/issues/{}", comment.number),
            "body": comment.body,
            "user": self.shape_account(comment.author),
            "author_association": self.association(repo, comment.author),
            "created_at": time(comment.created_at),
            "updated_at": time(comment.updated_at),
            "performed_via_github_app": self.app_of(comment.author),
            "reactions": reaction_counts(&url, &comment.reactions),
        })
    }

    /// The App behind an author: ours in full, a foreign one by what must be known of it.
    pub(super) fn app_of(&self, author: u64) -> Value {
        match self
            .accounts
            .get(&author)
            .and_then(|account| account.app.map(|app| (account, app)))
        {
            None => Value::Null,
            Some((_, app)) if app == self.app.id => self.shape_app(),
            Some((account, app)) => {
                let slug = account.login.trim_end_matches("[bot]");
                let mut shape = self.shape_app();
                shape["id"] = app.into();
                shape["node_id"] = node_id("App", app).into();
                shape["slug"] = slug.into();
                shape["name"] = slug.into();
                shape
            }
        }
    }

    /// What GitHub calls an author's relation; known to be unreliable, and so nothing to trust.
    pub(super) fn association(&self, repo: &Repo, author: u64) -> &'static str {
        match repo.roles.get(&author).map(String::as_str) {
            Some("admin" | "maintain" | "write") => "COLLABORATOR",
            _ => "NONE",
        }
    }

    pub(super) fn shape_reaction(&self, reaction: &Reaction) -> Value {
        let user = self.account_named(&reaction.by).map(|account| account.id);
        json!({
            "id": reaction.id,
            "node_id": node_id("Reaction", reaction.id),
            "user": self.shape_account(user.unwrap_or(0)),
            "content": reaction.content,
            "created_at": time(reaction.at),
        })
    }
}

/// The sums that issues and comments carry.
pub(super) fn reaction_counts(url: &str, reactions: &[Reaction]) -> Value {
    let count = |content: &str| reactions.iter().filter(|reaction| reaction.content == content).count();
    let mut shape = json!({ "url": format!("{url}/reactions"), "total_count": reactions.len() });
    for content in super::issues::REACTIONS {
        shape[content] = count(content).into();
    }
    shape
}

const REPOSITORY_LINKS: [(&str, &str); 36] = [
    ("archive_url", "/{archive_format}{/ref}"),
    ("assignees_url", "/assignees{/user}"),
    ("blobs_url", "/git/blobs{/sha}"),
    ("branches_url", "/branches{/branch}"),
    ("collaborators_url", "/collaborators{/collaborator}"),
    ("comments_url", "/comments{/number}"),
    ("commits_url", "/commits{/sha}"),
    ("compare_url", "/compare/{base}...{head}"),
    ("contents_url", "/contents/{+path}"),
    ("contributors_url", "/contributors"),
    ("deployments_url", "/deployments"),
    ("downloads_url", "/downloads"),
    ("events_url", "/events"),
    ("forks_url", "/forks"),
    ("git_commits_url", "/git/commits{/sha}"),
    ("git_refs_url", "/git/refs{/sha}"),
    ("git_tags_url", "/git/tags{/sha}"),
    ("hooks_url", "/hooks"),
    ("issue_comment_url", "/issues/comments{/number}"),
    ("issue_events_url", "/issues/events{/number}"),
    ("issues_url", "/issues{/number}"),
    ("keys_url", "/keys{/key_id}"),
    ("labels_url", "/labels{/name}"),
    ("languages_url", "/languages"),
    ("merges_url", "/merges"),
    ("milestones_url", "/milestones{/number}"),
    ("notifications_url", "/notifications{?since,all,participating}"),
    ("pulls_url", "/pulls{/number}"),
    ("releases_url", "/releases{/id}"),
    ("stargazers_url", "/stargazers"),
    ("statuses_url", "/statuses/{sha}"),
    ("subscribers_url", "/subscribers"),
    ("subscription_url", "/subscription"),
    ("tags_url", "/tags"),
    ("teams_url", "/teams"),
    ("trees_url", "/git/trees{/sha}"),
];
