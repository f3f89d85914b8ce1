//! What a story looks at: jobs in the database, and pull requests, branches and comments as they
//! stand on GitHub. Never changes anything.

use forgehand::demo::double::{Comment, Pull};
use forgehand::event::RunEvent;
use forgehand::job::{Job, JobKind, Outcome};
use forgehand::store::JobFilter;

use super::{REPO, Service, until};

/// More jobs than any story makes.
const MANY: u32 = 1_000;

impl Service {
    /// Every job, oldest first.
    pub async fn jobs(&self) -> Vec<Job> {
        let mut tx = self.store.begin().await.unwrap();
        let filter = JobFilter {
            limit: MANY,
            ..JobFilter::default()
        };
        let mut jobs = tx.jobs(&filter).await.unwrap();
        jobs.sort_by(|a, b| a.id.as_str().cmp(b.id.as_str()));
        jobs
    }

    /// The jobs that run the agent, oldest first.
    pub async fn works(&self) -> Vec<Job> {
        let mut jobs = self.jobs().await;
        jobs.retain(|job| job.kind.is_work());
        jobs
    }

    /// The jobs that change code, oldest first.
    pub async fn fixes(&self) -> Vec<Job> {
        let mut jobs = self.jobs().await;
        jobs.retain(|job| job.kind == JobKind::Fix);
        jobs
    }

    /// The last job that changes code.
    pub async fn fix(&self) -> Job {
        self.fixes().await.pop().expect("there is a job")
    }

    /// How the last job that changes code ended.
    pub async fn outcome(&self) -> Outcome {
        let job = self.fix().await;
        job.outcome
            .unwrap_or_else(|| panic!("job {} has no outcome: {} {:?}", job.id, job.state, job.reason))
    }

    /// What happened in a job.
    pub async fn events(&self, job: &Job) -> Vec<RunEvent> {
        let mut tx = self.store.begin().await.unwrap();
        let events = tx.events(&job.id, 0, 10_000).await.unwrap();
        events.into_iter().map(|event| event.body).collect()
    }

    /// Waits until everything that was asked for is over and said.
    pub async fn done(&self) {
        self.github.deliveries_settled().await;
        let over = tokio::time::timeout(super::PATIENCE, self.all_over()).await;
        if over.is_err() {
            for job in self.jobs().await {
                eprintln!("{job:#?}\n{:#?}", self.events(&job).await);
            }
            panic!("the jobs did not come to their end");
        }
    }

    async fn all_over(&self) {
        until("every job ends", async || {
            let jobs = self.jobs().await;
            let all_final = jobs.iter().all(|job| job.state.is_final());
            let mut tx = self.store.begin().await.unwrap();
            all_final
                && tx
                    .unsettled_jobs(chrono::DateTime::UNIX_EPOCH, MANY)
                    .await
                    .unwrap()
                    .is_empty()
        })
        .await;
    }

    /// Waits until the model was asked so many times.
    pub async fn model_is_asked(&self, times: usize) {
        until(&format!("the model is asked {times} times"), async || {
            self.model.requests().len() >= times
        })
        .await;
    }

    /// The pull requests.
    pub fn pulls(&self) -> Vec<Pull> {
        self.github.pulls(REPO).unwrap()
    }

    /// The pull request, which is the only one.
    #[track_caller]
    pub fn only_pull(&self) -> Pull {
        let mut pulls = self.pulls();
        assert_eq!(pulls.len(), 1, "{pulls:#?}\n{}", self.everything_said());
        pulls.remove(0)
    }

    /// Title and body of a pull request or issue.
    pub fn text_of(&self, number: u64) -> (String, String) {
        let issue = self.github.issue(REPO, number).unwrap();
        (issue.title, issue.body.unwrap_or_default())
    }

    /// The comments of our bot on an issue or pull request, oldest first.
    pub fn our_comments(&self, number: u64) -> Vec<Comment> {
        let mut comments = self.github.comments(REPO, number).unwrap();
        comments.retain(|comment| comment.ours);
        comments
    }

    /// The text of our only comment there.
    #[track_caller]
    pub fn our_only_words(&self, number: u64) -> String {
        let mut comments = self.our_comments(number);
        assert_eq!(comments.len(), 1, "{comments:#?}");
        comments.remove(0).body
    }

    /// A file at a branch, as text.
    pub async fn file(&self, branch: &str, path: &str) -> String {
        String::from_utf8(self.github.file(REPO, branch, path).await.unwrap()).unwrap()
    }

    /// Labels of an issue.
    pub fn labels(&self, number: u64) -> Vec<String> {
        self.github.issue(REPO, number).unwrap().labels
    }

    /// Everything our bot said anywhere in the repository, for messages of failed assertions.
    pub fn everything_said(&self) -> String {
        let numbers = 1..=20_u64;
        numbers
            .filter(|number| self.github.issue(REPO, *number).is_ok())
            .flat_map(|number| self.our_comments(number))
            .map(|comment| format!("on #{}: {}\n", comment.number, comment.body))
            .collect()
    }
}

/// Words of a comment without what differs from run to run: ids, times, markers and amounts.
pub fn lasting(words: &str) -> String {
    let passing = [
        // A scripted model counts every conversation alike, so long ones seem to be cut.
        (r"(?m)^> (?:The server read only|服务器只读取了) .*\n\n?", ""),
        (r"(?m)^Date: .*$", "Date: DATE"),
        (
            r"<!-- forgehand:v1:[^>]*-->(?:\n<!-- forgehand:v1:[^>]*-->)*",
            "<!-- MARKER -->",
        ),
        (r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "ID"),
        (r"\b[0-9a-f]{7,40}\b", "SHA"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "TIME"),
        (r"\d+ tokens in, \d+ out(?: ·|,) \$[0-9.]+", "TOKENS · MONEY"),
        (r"输入 \d+、输出 \d+ 个 token(?: ·|,) \$[0-9.]+", "TOKENS · MONEY"),
        (r"\b\d+(?:\.\d+)? (?:ms|s|min)\b(?: \d+ s)?", "DURATION"),
    ];
    passing.iter().fold(words.to_owned(), |words, (pattern, name)| {
        let pattern = regex::Regex::new(pattern).expect("the pattern is valid");
        pattern.replace_all(&words, *name).into_owned()
    })
}
