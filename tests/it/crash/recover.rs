//! `forgehand recover` shows what is left of jobs that are gone, settles it, and deletes branches only when
//! it is told to.

use std::time::Duration;

use forgehand::demo::double::Fault;
use forgehand::job::JobState;
use serde_json::Value;

use super::{WHOLE, ask, assert_invariants};
use crate::databases::Database;
use crate::process::{PERSON, REPO, Site, finished};

const PATIENCE: Duration = Duration::from_secs(120);

/// The leftovers of a kind: which, and what was done about it.
fn of(left: &Value, what: &str) -> Vec<(String, Option<String>)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let found = left.as_array().unwrap().iter().filter(|one| one["what"] == what);
    found
        .map(|one| (text(&one["id"]).unwrap(), text(&one["done"])))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn recover_settles_what_is_left_and_keeps_branches_until_it_is_told() {
    for database in [Database::sqlite(), Database::postgres().await] {
        eprintln!("on {}", database.kind());
        let site = Site::open(database).await;
        let mut service = site.program("service", WHOLE);
        service.start().await;
        let store = site.database.open().await;
        // Work is pushed, and no pull request can be opened from it.
        let pulls = format!("POST /repos/{REPO}/pulls");
        site.double
            .fault(&pulls, Fault::status(422, "Validation Failed"), 1_000);
        let mut branches = Vec::new();
        for number in 0..2 {
            let issue = ask(&site, number, "It prints a difference.");
            let job = site
                .wait("the job ends", PATIENCE, async || finished(&store, issue).await)
                .await;
            assert_eq!(job.state, JobState::Done, "{job:#?}");
            let known = site.double.branches(REPO).unwrap();
            let new = known
                .into_iter()
                .find(|name| name != "main" && !branches.contains(name));
            branches.push(new.expect("the work is on a branch"));
        }
        service.stop().await;
        store.close().await;
        site.double.clear_faults();
        // Somebody goes on with the second one.
        let more = [("notes.txt", "Mine now.\n")];
        site.double
            .push(REPO, &branches[1], &more, "Go on", PERSON)
            .await
            .unwrap();
        site.database
            .execute(
                "UPDATE jobs SET state = 'dead', reason = 'it broke', outcome = NULL;
                 INSERT INTO reservations
                 SELECT id, fence, '2026-01-01', repo_id, installation_id, subject, 5 FROM jobs",
            )
            .await;
        let folder = service.state.join("runs").join("01ARZ3NDEKTSV4RRFFQ69G5FAV");
        std::fs::create_dir_all(folder.join("workspace")).unwrap();
        let shown = service.json(&["recover", "--dry-run", "--branches", "--json"]).await;
        assert_eq!(of(&shown, "folder").len(), 1, "{shown:#}");
        assert_eq!(of(&shown, "money").len(), 2, "{shown:#}");
        let stays = Some("it stays: somebody pushed to it since".to_owned());
        let named: Vec<String> = branches.iter().map(|branch| format!("{REPO} {branch}")).collect();
        let expected = [(named[0].clone(), None), (named[1].clone(), stays.clone())];
        assert_eq!(of(&shown, "branch"), expected, "{shown:#}");
        assert!(folder.exists(), "it was only shown");
        let settled = service.json(&["recover", "--json"]).await;
        let done = |what| of(&settled, what).into_iter().map(|(_, done)| done.unwrap_or_default());
        assert_eq!(done("folder").collect::<Vec<_>>(), ["removed"], "{settled:#}");
        assert_eq!(done("money").collect::<Vec<_>>(), ["free again", "free again"]);
        assert_eq!(of(&settled, "branch"), expected, "nobody said that they are not needed");
        assert!(!folder.exists());
        assert_eq!(site.double.branches(REPO).unwrap().len(), 3);
        let settled = service.json(&["recover", "--branches", "--json"]).await;
        let expected = [
            (named[0].clone(), Some("deleted".to_owned())),
            (named[1].clone(), stays),
        ];
        assert_eq!(of(&settled, "branch"), expected, "{settled:#}");
        let left = site.double.branches(REPO).unwrap();
        assert!(!left.contains(&branches[0]) && left.contains(&branches[1]), "{left:?}");
        let last = service.run(&["recover"]).await;
        let last = String::from_utf8(last.stdout).unwrap();
        assert!(
            last.starts_with("branch ") && last.contains("somebody pushed to it since"),
            "{last}"
        );
        assert_invariants(&service).await;
        site.close().await;
    }
}
