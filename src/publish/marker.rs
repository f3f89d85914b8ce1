//! The hidden marker by which our own comments are found again after a crash. Signed, because
//! anybody can paste one. Never the only proof: the author must be our App, too.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::ids::{DraftId, JobId};
use crate::secret::Secret;

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
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.0.expose().as_bytes()).expect("HMAC takes keys of any length");
        mac.update(format!("{job}:{seq}").as_bytes());
        let tag = hex::encode(mac.finalize().into_bytes());
        format!("<!-- forgehand:v1:{job}:{seq}:{} -->", &tag[..32])
    }

    /// The marker of the issue that a draft, or a part of it, becomes: the same whoever confirms it.
    pub fn of_draft(&self, draft: &DraftId, part: u32) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.0.expose().as_bytes()).expect("HMAC takes keys of any length");
        mac.update(format!("draft:{draft}:{part}").as_bytes());
        let tag = hex::encode(mac.finalize().into_bytes());
        format!("<!-- forgehand:v1:draft:{draft}:{part}:{} -->", &tag[..32])
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
}
