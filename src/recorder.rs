//! Writes a run's events, conversation and checkpoints: redacted, capped, and under the run's
//! lease, so that a worker that lost its lease cannot write any more. Called by `agent`, `run` and
//! `publish`. Never reads events back to decide something.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::Clock;
use crate::conversation::Entry;
use crate::event::{Event, RunEvent};
use crate::ids::JobId;
use crate::job::Lease;
use crate::ledger::{Call, Leave, Ledger};
use crate::secret::Redactor;
use crate::store::{Store, StoreError};
use crate::text;

/// Most bytes of one text field of an event.
const MAX_FIELD_BYTES: usize = 16 * 1024;

/// Most bytes of one text of a conversation. What writes entries caps tighter.
const MAX_SAID_BYTES: usize = 2 * 1024 * 1024;

/// Entries of a conversation read in one statement.
const PAGE: u32 = 200;

/// The latest value of a kind of checkpoint, stored together with what it speaks of.
pub struct Latest<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// Its position.
    pub seq: i64,
    /// Its value.
    pub body: Vec<u8>,
}

/// What goes to a tape.
pub enum Taped<'a> {
    /// The latest value of a kind of checkpoint.
    Latest {
        /// Its kind.
        kind: &'a str,
        /// Its value.
        body: &'a [u8],
    },
    /// An entry of an agent's conversation.
    Entry {
        /// The agent.
        agent: &'a str,
        /// Position in its log, from 0.
        seq: u64,
        /// The entry.
        entry: &'a Entry,
    },
}

/// Where a run without a service is recorded as it goes; must be quick.
pub type Tape = Arc<dyn Fn(Taped<'_>) + Send + Sync>;

/// Called with each event after it is written; must not block.
pub type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

/// Where a run's events go.
#[derive(Clone)]
pub struct Recorder {
    sink: Sink,
    clock: Clock,
    redactor: Redactor,
    listener: Option<Listener>,
    tape: Option<Tape>,
    ledger: Option<Ledger>,
}

#[derive(Clone)]
enum Sink {
    Store { store: Store, lease: Lease },
    Memory { job: JobId, kept: Arc<Mutex<Kept>> },
}

/// What a recorder in memory keeps.
#[derive(Default)]
struct Kept {
    events: Vec<Event>,
    /// Each agent's conversation.
    logs: HashMap<String, Vec<Entry>>,
}

impl Kept {
    fn take(&mut self, event: &mut Event) {
        event.seq = self.events.len() as i64 + 1;
        self.events.push(event.clone());
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Writes to the database under a lease.
    pub fn stored(store: Store, lease: Lease, clock: Clock, redactor: Redactor) -> Self {
        Self {
            sink: Sink::Store { store, lease },
            clock,
            redactor,
            listener: None,
            tape: None,
            ledger: None,
        }
    }

    /// Keeps events in memory, for runs without a service.
    pub fn in_memory(clock: Clock, redactor: Redactor) -> Self {
        let job = JobId::new(clock.now());
        Self {
            sink: Sink::Memory {
                job,
                kept: Arc::default(),
            },
            clock,
            redactor,
            listener: None,
            tape: None,
            ledger: None,
        }
    }

    /// The same recorder with a listener.
    pub fn with_listener(mut self, listener: Listener) -> Self {
        self.listener = Some(listener);
        self
    }

    /// The same recorder with a tape.
    pub fn with_tape(mut self, tape: Tape) -> Self {
        self.tape = Some(tape);
        self
    }

    /// The same recorder with the ledger, which has to be asked before each call of a model.
    pub fn with_ledger(mut self, ledger: Ledger) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Whether a ledger counts the money of the run; otherwise it has to count by itself.
    pub fn has_ledger(&self) -> bool {
        self.ledger.is_some()
    }

    /// Asks whether a call of a model may be made. What it cost is charged with its event.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    pub async fn leave(&self, call: &Call) -> Result<Leave, StoreError> {
        match &self.ledger {
            Some(ledger) => ledger.leave(call, self.clock.now()).await,
            None => Ok(Leave::Granted {
                left_usd: None,
                near: Vec::new(),
            }),
        }
    }

    /// Nothing came of the last call that has to be paid for.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    pub async fn release(&self) -> Result<(), StoreError> {
        match &self.ledger {
            Some(ledger) => ledger.release().await,
            None => Ok(()),
        }
    }

    /// The job that its events are of.
    pub fn job(&self) -> &JobId {
        match &self.sink {
            Sink::Store { lease, .. } => &lease.job,
            Sink::Memory { job, .. } => job,
        }
    }

    /// The redactor in force, for texts that go elsewhere.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Writes one event.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] when the run must stop; other errors of the database.
    pub async fn record(&self, event: RunEvent) -> Result<(), StoreError> {
        let mut event = self.event(event)?;
        match &self.sink {
            Sink::Store { store, lease } => {
                let mut tx = store.begin().await?;
                event.seq = Box::pin(tx.append_event(lease, &event.body, event.at)).await?;
                fp!("event.written");
                tx.commit().await?;
                fp!("event.committed");
            }
            Sink::Memory { kept, .. } => lock(kept).take(&mut event),
        }
        self.tell(&event);
        Ok(())
    }

    /// An event without its number.
    fn event(&self, body: RunEvent) -> Result<Event, StoreError> {
        Ok(Event {
            job: self.job().clone(),
            seq: 0,
            at: self.clock.now(),
            body: self.clean(&body, MAX_FIELD_BYTES)?,
        })
    }

    fn tell(&self, event: &Event) {
        if let Some(listener) = &self.listener {
            listener(event);
        }
    }

    /// Stores the latest checkpoint of a kind. Without a service there is nothing to resume, and it
    /// only goes to the tape.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    pub async fn checkpoint(&self, kind: &str, seq: i64, body: &[u8]) -> Result<(), StoreError> {
        match &self.sink {
            Sink::Store { store, lease } => {
                let mut tx = store.begin().await?;
                Box::pin(tx.save_checkpoint(lease, kind, seq, body)).await?;
                fp!("checkpoint.written");
                tx.commit().await?;
                fp!("checkpoint.committed");
                Ok(())
            }
            Sink::Memory { .. } => {
                if let Some(tape) = &self.tape {
                    tape(Taped::Latest { kind, body });
                }
                Ok(())
            }
        }
    }

    /// Appends entries to the conversation of one agent, the first at position `first`, and stores
    /// with them, in one transaction, how far the run has got and the event that tells of them: a
    /// reply that is paid for is also kept.
    ///
    /// # Errors
    /// As [`Recorder::record`]; also when a position is taken already.
    pub async fn append(
        &self,
        agent: &str,
        first: u64,
        entries: &[Entry],
        latest: Option<Latest<'_>>,
        event: Option<RunEvent>,
    ) -> Result<(), StoreError> {
        let mut event = event.map(|event| self.event(event)).transpose()?;
        let entries = entries.iter().map(|entry| self.clean(entry, MAX_SAID_BYTES));
        let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
        match &self.sink {
            Sink::Store { store, lease } => {
                let bodies = entries.iter().map(serde_json::to_string);
                let bodies: Vec<String> = bodies.collect::<Result<_, _>>().map_err(corrupt)?;
                let first = i64::try_from(first).map_err(corrupt)?;
                let mut tx = store.begin().await?;
                if let Some(event) = &mut event {
                    event.seq = Box::pin(tx.append_event(lease, &event.body, event.at)).await?;
                }
                tx.append_conversation(lease, agent, first, &bodies).await?;
                if let Some(latest) = latest {
                    tx.save_checkpoint(lease, latest.kind, latest.seq, &latest.body).await?;
                }
                fp!("conversation.written");
                tx.commit().await?;
                fp!("conversation.committed");
            }
            Sink::Memory { kept, .. } => {
                let kept = &mut lock(kept);
                let log = kept.logs.entry(agent.to_owned()).or_default();
                if log.len() as u64 != first {
                    return Err(StoreError::Corrupt(format!(
                        "the conversation of {agent} has {} entries, and one came for position {first}",
                        log.len()
                    )));
                }
                if let Some(tape) = &self.tape {
                    for (seq, entry) in (first..).zip(&entries) {
                        tape(Taped::Entry { agent, seq, entry });
                    }
                }
                log.extend(entries);
                if let Some(event) = &mut event {
                    kept.take(event);
                }
            }
        }
        if let Some(event) = &event {
            self.tell(event);
        }
        Ok(())
    }

    /// A part of an agent's conversation: entries from position `from` on, in order. Empty behind
    /// its end.
    ///
    /// # Errors
    /// Those of the database; [`StoreError::Corrupt`] when an entry does not parse.
    pub async fn conversation(&self, agent: &str, from: u64) -> Result<Vec<Entry>, StoreError> {
        match &self.sink {
            Sink::Store { store, lease } => {
                let from = i64::try_from(from).map_err(corrupt)?;
                let mut tx = store.begin().await?;
                let page = tx.conversation(&lease.job, agent, from, PAGE).await?;
                page.iter()
                    .map(|(_, body)| serde_json::from_str(body).map_err(corrupt))
                    .collect()
            }
            Sink::Memory { kept, .. } => {
                let from = usize::try_from(from).unwrap_or(usize::MAX);
                let kept = lock(kept);
                let log = kept.logs.get(agent).and_then(|log| log.get(from..));
                Ok(log.unwrap_or_default().iter().take(PAGE as usize).cloned().collect())
            }
        }
    }

    /// The events kept in memory; empty for a recorder that stores.
    pub fn kept(&self) -> Vec<Event> {
        match &self.sink {
            Sink::Store { .. } => Vec::new(),
            Sink::Memory { kept, .. } => lock(kept).events.clone(),
        }
    }

    /// The value without secrets and with every text capped, for what is stored beside events.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when it cannot be written as JSON and read again.
    pub fn cleaned<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<T, StoreError> {
        self.clean(value, MAX_SAID_BYTES)
    }

    /// Redacts and caps every text field.
    fn clean<T: Serialize + DeserializeOwned>(&self, value: &T, max_bytes: usize) -> Result<T, StoreError> {
        let mut value = serde_json::to_value(value).map_err(corrupt)?;
        self.clean_value(&mut value, max_bytes);
        serde_json::from_value(value).map_err(corrupt)
    }

    fn clean_value(&self, value: &mut serde_json::Value, max_bytes: usize) {
        match value {
            serde_json::Value::String(text) => {
                // NUL cannot be stored by PostgreSQL.
                *text = text::cap_middle(&self.redactor.redact(text), max_bytes).replace('\0', "␀");
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(|item| self.clean_value(item, max_bytes)),
            serde_json::Value::Object(fields) => {
                fields.values_mut().for_each(|field| self.clean_value(field, max_bytes));
            }
            _ => {}
        }
    }
}

fn corrupt(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Message;
    use crate::secret::Secret;

    #[tokio::test]
    async fn events_are_redacted_and_capped() {
        let redactor = Redactor::default();
        redactor.add(&Secret::new("very-secret-value"));
        let recorder = Recorder::in_memory(Clock::System, redactor);
        let text = format!("very-secret-value {}", "x".repeat(100_000));
        recorder.record(RunEvent::Noted { text }).await.unwrap();
        let RunEvent::Noted { text } = &recorder.kept()[0].body else {
            panic!("another event")
        };
        assert!(text.starts_with("[redacted] xxx") && text.len() < 17_000);
    }

    #[tokio::test]
    async fn a_conversation_is_redacted_and_read_in_portions() {
        let redactor = Redactor::default();
        redactor.add(&Secret::new("very-secret-value"));
        let recorder = Recorder::in_memory(Clock::System, redactor);
        let said = |at: u64| Entry::said(Message::user(format!("{at} very-secret-value")));
        let entries: Vec<Entry> = (0..250).map(said).collect();
        recorder.append("main", 0, &entries[..3], None, None).await.unwrap();
        recorder.append("main", 3, &entries[3..], None, None).await.unwrap();
        assert!(recorder.append("main", 7, &entries[..1], None, None).await.is_err());
        assert_eq!(recorder.conversation("main", 0).await.unwrap().len(), 200);
        let rest = recorder.conversation("main", 200).await.unwrap();
        assert_eq!(rest.len(), 50);
        assert_eq!(rest[0], Entry::said(Message::user("200 [redacted]")));
        assert!(recorder.conversation("main", 250).await.unwrap().is_empty());
        assert!(recorder.conversation("review-1", 0).await.unwrap().is_empty());
    }
}
