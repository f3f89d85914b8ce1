//! What a queue has to be able to do, so that issues of another forge can be worked on: list its
//! items cheaply, read one of them with who put it there, and count what caps are about.
//! Never decides whether an item is worked on, and never writes.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};

use crate::ids::IssueNumber;
use crate::job::{Actor, Pins};
use crate::store::RepoRow;

/// Where issues wait to be worked on. One value serves all repositories; it keeps nothing between
/// calls but what it can find out again.
#[async_trait]
pub trait QueueSource: Send + Sync {
    /// What selects the items, in words that people know from the forge. Rows are kept under it, so
    /// another selection needs another name.
    fn name(&self) -> &str;

    /// The label that is taken off an item when its work is over, where the queue is one of a label.
    fn label(&self) -> Option<&str>;

    /// How many complete lists in a row must lack an item before it counts as gone although it looks
    /// as if it belonged there: 1 where lists are exact, more where they come from an index that lags.
    fn patience(&self) -> u32;

    /// Lists what is in the queue of a repository, oldest first. `mark` is what the last list gave;
    /// where nothing changed since, the forge should be able to say so at no cost.
    ///
    /// # Errors
    /// [`SourceError`] by what can be done. An error is never an empty list.
    async fn list(&self, repo: &RepoRow, mark: &[String]) -> Result<Listing, SourceError>;

    /// Reads one item as it stands now, not as an index knows it. `None`: it is not in the queue.
    ///
    /// # Errors
    /// As [`QueueSource::list`].
    async fn item(&self, repo: &RepoRow, number: IssueNumber) -> Result<Option<Item>, SourceError>;

    /// Whether an item looks as if it belonged to the queue, as far as the item itself tells.
    ///
    /// # Errors
    /// As [`QueueSource::list`].
    async fn belongs(&self, repo: &RepoRow, number: IssueNumber) -> Result<bool, SourceError>;

    /// How many open items the repository has, in the queue or not.
    ///
    /// # Errors
    /// As [`QueueSource::list`].
    async fn open_items(&self, repo: &RepoRow) -> Result<u32, SourceError>;

    /// How many pull requests of ours are open in the repository; `max` stands for more.
    ///
    /// # Errors
    /// As [`QueueSource::list`].
    async fn open_pulls(&self, repo: &RepoRow, max: u32) -> Result<u32, SourceError>;
}

/// What a list said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listing {
    /// It is as it was under the mark.
    Unchanged,
    /// It was read anew.
    Read {
        /// Items, oldest first.
        items: Vec<Listed>,
        /// For the next call.
        mark: Vec<String>,
        /// Whether these are all: only then is what is missing not in the queue.
        is_complete: bool,
    },
}

/// An item of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Its number.
    pub number: IssueNumber,
    /// Its last change.
    pub changed_at: DateTime<Utc>,
}

/// An item as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Title, body and author, as they were read.
    pub pins: Pins,
    /// Its last change.
    pub changed_at: DateTime<Utc>,
    /// Who put it into the queue.
    pub asked: Asked,
}

/// Who put an item into a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// This person, or a bot that is listened to. Whether they may is not asked here.
    By {
        /// Who.
        actor: Actor,
        /// When: what was written later was not seen by them.
        at: DateTime<Utc>,
    },
    /// Nobody who could ask for work; why, for people.
    Nobody {
        /// Why.
        why: String,
        /// When it was put there, where that is known.
        at: Option<DateTime<Utc>>,
    },
    /// The forge has not told yet; it is asked again.
    NotTold(String),
}

impl Item {
    /// The content version: the text, who put it there, and when. The same one is worked on once.
    pub fn version(&self) -> String {
        let (who, at) = match &self.asked {
            Asked::By { actor, at } => (actor.id.to_string(), Some(*at)),
            Asked::Nobody { why, at } => (why.clone(), *at),
            Asked::NotTold(why) => (why.clone(), None),
        };
        let mut hash = Sha256::new();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let at = at.map(|at| at.timestamp().to_string()).unwrap_or_default();
        for part in [text(&self.pins.title), text(&self.pins.body), who, at] {
            // With its length, no part can look like two.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hex::encode(&hash.finalize()[..16])
    }
}

/// Why a queue was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The forge asks to wait until then.
    #[error("{detail}")]
    Wait {
        /// When to ask again.
        until: DateTime<Utc>,
        /// Why, for people.
        detail: String,
    },
    /// It did not work; later it may.
    #[error("{0}")]
    Failed(String),
}
