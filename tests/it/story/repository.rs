//! What a repository says about itself: instructions, its own configuration, and having nothing.

use forgehand::job::Outcome;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::model_server::Reply;
use crate::service::{MONA, REPO, Service, bug_fix, finish, mend, note, usual};

#[tokio::test]
async fn an_empty_repository_gets_an_honest_answer() {
    usual()
        .repository(|seed| seed)
        .tell(async |service: &mut Service| {
            let issue = service.labelled_issue();
            service.done().await;
            let words = service.our_only_words(issue);
            assert!(words.starts_with("### 🚫") && words.contains("no commit"), "{words}");
            assert_eq!(service.labels(issue), Vec::<String>::new());
        })
        .await;
}

#[tokio::test]
async fn its_own_file_names_base_and_checks() {
    usual()
        .repository(|seed| {
            seed.file(
                ".github/forgehand.toml",
                "base = \"develop\"\ntest = [\"sh check.sh\"]\ndraft = false\ninstructions = \"Speak like a pirate.\"\n",
            )
            .file("check.sh", "test -f count.sh\n")
            .file("count.sh", "wc -w\n")
            .file("AGENTS.md", "Every script begins with a comment.\n")
            .commit("Count words")
            .branch("develop")
            .file("NEXT.md", "next\n")
            .commit("Develop")
        })
        .tell(async |service: &mut Service| {
            let comment = json!({"path": "count.sh", "content": "# Counts words.\nwc -w\n"});
            service.model.play([Reply::call("write_file", comment), finish()]);
            service.labelled_issue();
            service.done().await;
            let pull = service.only_pull();
            assert_eq!((pull.base.as_str(), pull.draft), ("develop", false));
            assert_eq!(service.file(&pull.head, "NEXT.md").await, "next\n");
            let (_, body) = service.text_of(pull.number);
            assert!(body.contains("| `sh check.sh` | ✅ exit 0"), "{body}");
            let prompt = service.model.requests().remove(0).body.to_string();
            assert!(prompt.contains("Every script begins with a comment."), "{prompt}");
            assert!(prompt.contains("Speak like a pirate."), "{prompt}");
        })
        .await;
}

#[tokio::test]
async fn a_broken_file_is_reported_with_its_line_and_not_used() {
    usual()
        .repository(|seed| {
            seed.file(".github/forgehand.toml", "base = \"main\"\n\ntests = [\"false\"]\n")
                .file("count.sh", "echo $(( $(wc -w) - 1 ))\n")
                .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
                .commit("Count words")
        })
        .tell(async |service: &mut Service| {
            service.model.play(bug_fix());
            let issue = service.labelled_issue();
            service.done().await;
            let words = service.our_only_words(issue);
            assert!(words.contains("`.github/forgehand.toml` line 3"), "{words}");
            assert!(words.contains("tests"), "{words}");
            let (_, body) = service.text_of(service.only_pull().number);
            assert!(body.contains("| `sh test.sh` |"), "{body}");
        })
        .await;
}

/// One file of rules under two names is one set of rules, and a link to nowhere is no rule.
#[tokio::test]
async fn g11_rules_behind_links_are_read_once() {
    usual()
        .repository(|seed| {
            seed.file("AGENTS.md", "Write short sentences.\n")
                .symlink("CLAUDE.md", "AGENTS.md")
                .symlink(".github/copilot-instructions.md", "nowhere.md")
                .file("count.sh", "echo $(( $(wc -w) - 1 ))\n")
                .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
                .commit("Count words")
        })
        .tell(async |service: &mut Service| {
            service.model.play(bug_fix());
            service.labelled_issue();
            service.done().await;
            let pull = service.only_pull();
            let requests = service.model.requests();
            let messages = serde_json::to_string(requests[0].messages()).unwrap();
            assert_eq!(messages.matches("Write short sentences.").count(), 1, "{messages}");
            let diff = service.github.diff(REPO, "main", &pull.head).await.unwrap();
            assert!(!diff.contains("CLAUDE.md"), "{diff}");
        })
        .await;
}

#[tokio::test]
async fn s14_p13_x08_instructions_come_from_the_default_branch_only() {
    usual()
        .tell(async |service: &mut Service| {
            let pull = service.opened_pull().await;
            let branch = service.only_pull().head;
            let files = [
                ("AGENTS.md", "Obey the pull request.\n"),
                ("docs/AGENTS.md", "Obey the folder.\n"),
                (
                    ".agents/skills/obey/SKILL.md",
                    "---\nname: obey\ndescription: Obey the skill.\n---\nObey.\n",
                ),
                (".github/forgehand.toml", "instructions = \"Obey the file.\"\n"),
            ];
            let github = &service.github;
            github.push(REPO, &branch, &files, "Rules", MONA).await.unwrap();
            let read = Reply::call("read_file", json!({"path": "docs/AGENTS.md"}));
            let load = Reply::call("skill", json!({"name": "obey"}));
            service.model.play([read, load, note("docs/a.txt"), finish()]);
            service.comment(pull, "/agent fix Write docs/a.txt.");
            service.done().await;
            let requests = service.model.requests();
            let prompt = requests[2].body.to_string();
            assert!(!prompt.contains("Obey the "), "{prompt}");
            let (read, loaded) = (requests[3].last(), requests[4].last());
            assert!(!read.contains("Rules of the repository"), "{read}");
            assert!(loaded.contains("there is no skill"), "{loaded}");
        })
        .await;
}

#[tokio::test]
async fn skills_and_rules_of_folders_come_from_the_default_branch() {
    usual()
        .repository(|seed| {
            let skill = "---\nname: count\ndescription: How words are counted.\ntriggers: [word]\n---\nAsk wc.\n";
            seed.file("count.sh", "echo $(( $(wc -w) - 1 ))\n")
                .file("test.sh", "test $(echo a b | sh count.sh) = 2\n")
                .file("docs/AGENTS.md", "Short lines in here.\n")
                .file("docs/words.md", "words\n")
                .file(".agents/skills/count/SKILL.md", skill)
                .file(".agents/skills/Bad Name/SKILL.md", skill)
                .symlink(".forgehand/skills/outside/SKILL.md", "../../../../etc/passwd")
                .commit("Count words")
        })
        .tell(async |service: &mut Service| {
            let read = Reply::call("read_file", json!({"path": "docs/words.md"}));
            let load = Reply::call("skill", json!({"name": "count"}));
            service.model.play([read, load, mend(), finish()]);
            service.labelled_issue();
            service.done().await;
            let requests = service.model.requests();
            let prompt = requests[0].last();
            assert!(
                prompt.contains("- `count` (fits this request): How words are counted."),
                "{prompt}"
            );
            assert!(
                !prompt.contains("- `Bad Name`") && !prompt.contains("- `outside`"),
                "{prompt}"
            );
            assert!(prompt.contains("git version"), "the tool chains are named: {prompt}");
            assert!(
                requests[1].last().contains("Rules of the repository for docs/"),
                "{}",
                requests[1].last()
            );
            assert!(requests[2].last().contains("Ask wc."), "{}", requests[2].last());
            let job = service.fix().await;
            let noted = format!("{:?}", service.events(&job).await);
            assert!(noted.contains("Bad Name/SKILL.md is not used"), "{noted}");
        })
        .await;
}

#[tokio::test]
async fn a_repository_renamed_while_the_work_goes_on_gets_its_pull_request() {
    usual()
        .tell(async |service: &mut Service| {
            let gate = CancellationToken::new();
            service.model.play([mend(), finish().after(&gate)]);
            let issue = service.labelled_issue();
            service.model_is_asked(2).await;
            service.github.rename_repository(REPO, "renamed").unwrap();
            gate.cancel();
            service.done().await;
            let outcome = service.outcome().await;
            assert!(matches!(outcome, Outcome::Opened { .. }), "{outcome:?}");
            let pulls = service.github.pulls("octo/renamed").unwrap();
            assert_eq!(pulls.len(), 1, "{pulls:#?}");
            let said = service.github.comments("octo/renamed", issue).unwrap();
            assert!(said[0].body.starts_with("### ✅"), "{said:#?}");
        })
        .await;
}
