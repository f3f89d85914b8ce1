//! The hidden marker by which our own comments are found again after a crash. Signed, because
//! anybody can paste one. Never the only proof: the author must be our App, too.

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ids::{DraftId, JobId};
use crate::job::Outcome;
use crate::secret::Secret;

/// How the marker of an ending begins.
const ENDED: &str = "forgehand:v1:ended:";

/// How a round of a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// The job.
    pub job: JobId,
    /// Its round.
    pub round: u32,
    /// What had asked for it; the same for no other event.
    pub asked: String,
    /// How.
    pub outcome: Outcome,
}

/// Signs markers.
#[derive(Clone)]
pub struct MarkerKey(Secret);

impl MarkerKey {
    /// Derives the key from a secret that all processes of the service share.
    pub fn from_secret(secret: &Secret) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"forgehand marker v1\0");
        hash.update(secret.expose().as_bytes());
        Self(Secret::new(hex::encode(hash.finalize())))
    }

    /// The marker of one effect of a job.
    pub fn marker(&self, job: &JobId, seq: i64) -> String {
        format!(
            "<!-- forgehand:v1:{job}:{seq}:{} -->",
            self.tag(&format!("{job}:{seq}"))
        )
    }

    /// What the last edit of a status comment says besides, for a database that does not know it: how
    /// a round of a job ended, and what had asked for it.
    pub fn ending(&self, ending: &Ending) -> String {
        let said = hex::encode(serde_json::to_vec(ending).unwrap_or_default());
        format!("<!-- {ENDED}{said}:{} -->", self.tag(&format!("ended:{said}")))
    }

    /// What such markers in a text say, as far as they are ours.
    pub fn endings_in(&self, text: &str) -> Vec<Ending> {
        let begin = format!("<!-- {ENDED}");
        let after = text.split(begin.as_str()).skip(1);
        let ours = after.filter_map(|rest| {
            let (said, tag) = rest.split_once(" -->")?.0.split_once(':')?;
            let is_ours = tag == self.tag(&format!("ended:{said}"));
            serde_json::from_slice(&hex::decode(said).ok().filter(|_| is_ours)?).ok()
        });
        ours.collect()
    }

    fn tag(&self, text: &str) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.0.expose().as_bytes()).expect("HMAC takes keys of any length");
        mac.update(text.as_bytes());
        hex::encode(mac.finalize().into_bytes())[..32].to_owned()
    }

    /// The marker of the issue that a draft, or a part of it, becomes: the same whoever confirms it.
    pub fn of_draft(&self, draft: &DraftId, part: u32) -> String {
        let tag = self.tag(&format!("draft:{draft}:{part}"));
        format!("<!-- forgehand:v1:draft:{draft}:{part}:{tag} -->")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_differ_by_job_effect_and_key() {
        let job = JobId::new(chrono::DateTime::UNIX_EPOCH);
        let key = MarkerKey::from_secret(&Secret::new("one"));
        let other = MarkerKey::from_secret(&Secret::new("two"));
        assert_eq!(key.marker(&job, 1), key.marker(&job, 1));
        assert_ne!(key.marker(&job, 1), key.marker(&job, 2));
        assert_ne!(key.marker(&job, 1), other.marker(&job, 1));
        let draft = DraftId::new(chrono::DateTime::UNIX_EPOCH);
        assert_ne!(key.of_draft(&draft, 0), key.of_draft(&draft, 1));
        assert_ne!(key.of_draft(&draft, 0), other.of_draft(&draft, 0));
    }

    #[test]
    fn an_ending_is_read_back_by_its_own_key_alone() {
        let key = MarkerKey::from_secret(&Secret::new("one"));
        let ending = Ending {
            job: JobId::new(chrono::DateTime::UNIX_EPOCH),
            round: 2,
            asked: "a".to_owned(),
            outcome: Outcome::GaveUp {
                reason: "it says --> \"<!-- forgehand:v1:ended:00:00 -->\"".to_owned(),
                branch: None,
            },
        };
        let marker = key.ending(&ending);
        assert_eq!(marker.matches("-->").count(), 1, "{marker}");
        let text = format!(
            "Done.\n\n{}\n{marker} and <!-- forgehand:v1:ended:00 -->",
            key.marker(&ending.job, 2)
        );
        assert_eq!(key.endings_in(&text), [ending]);
        assert_eq!(MarkerKey::from_secret(&Secret::new("two")).endings_in(&text), []);
        assert_eq!(key.endings_in(&text.replace(":7b", ":7c")), []);
    }
}
