//! Writes a run's events and checkpoints: redacted, capped, and under the run's lease, so that a
//! worker that lost its lease cannot write any more. Called by `agent`, `run` and `publish`.
//! Never reads events back to decide something.

use std::sync::{Arc, Mutex};

use crate::clock::Clock;
use crate::event::{Event, RunEvent};
use crate::ids::JobId;
use crate::job::Lease;
use crate::secret::Redactor;
use crate::store::{Store, StoreError};
use crate::text;

/// Most bytes of one text field of an event.
const MAX_FIELD_BYTES: usize = 16 * 1024;

/// Called with each event after it is written; must not block.
pub type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

/// Where a run's events go.
#[derive(Clone)]
pub struct Recorder {
    sink: Sink,
    clock: Clock,
    redactor: Redactor,
    listener: Option<Listener>,
}

#[derive(Clone)]
enum Sink {
    Store { store: Store, lease: Lease },
    Memory { job: JobId, events: Arc<Mutex<Vec<Event>>> },
}

impl Recorder {
    /// Writes to the database under a lease.
    pub fn stored(store: Store, lease: Lease, clock: Clock, redactor: Redactor) -> Self {
        Self {
            sink: Sink::Store { store, lease },
            clock,
            redactor,
            listener: None,
        }
    }

    /// Keeps events in memory, for runs without a service.
    pub fn in_memory(clock: Clock, redactor: Redactor) -> Self {
        let job = JobId::new(clock.now());
        Self {
            sink: Sink::Memory {
                job,
                events: Arc::default(),
            },
            clock,
            redactor,
            listener: None,
        }
    }

    /// The same recorder with a listener.
    pub fn with_listener(mut self, listener: Listener) -> Self {
        self.listener = Some(listener);
        self
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
        let event = self.clean(event)?;
        let at = self.clock.now();
        let written = match &self.sink {
            Sink::Store { store, lease } => {
                let mut tx = store.begin().await?;
                let seq = tx.append_event(lease, &event, at).await?;
                tx.commit().await?;
                Event {
                    job: lease.job.clone(),
                    seq,
                    at,
                    body: event,
                }
            }
            Sink::Memory { job, events } => {
                let mut events = events.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                let written = Event {
                    job: job.clone(),
                    seq: events.len() as i64 + 1,
                    at,
                    body: event,
                };
                events.push(written.clone());
                written
            }
        };
        if let Some(listener) = &self.listener {
            listener(&written);
        }
        Ok(())
    }

    /// Stores the latest checkpoint of a kind. Without a service there is nothing to resume, and
    /// nothing is stored.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    pub async fn checkpoint(&self, kind: &str, seq: i64, body: &[u8]) -> Result<(), StoreError> {
        match &self.sink {
            Sink::Store { store, lease } => {
                let mut tx = store.begin().await?;
                tx.save_checkpoint(lease, kind, seq, body).await?;
                tx.commit().await
            }
            Sink::Memory { .. } => Ok(()),
        }
    }

    /// The events kept in memory; empty for a recorder that stores.
    pub fn kept(&self) -> Vec<Event> {
        match &self.sink {
            Sink::Store { .. } => Vec::new(),
            Sink::Memory { events, .. } => events.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone(),
        }
    }

    /// Redacts and caps every text field.
    fn clean(&self, event: RunEvent) -> Result<RunEvent, StoreError> {
        let mut value = serde_json::to_value(&event).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        self.clean_value(&mut value);
        serde_json::from_value(value).map_err(|error| StoreError::Corrupt(error.to_string()))
    }

    fn clean_value(&self, value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) => {
                // NUL cannot be stored by PostgreSQL.
                *text = text::cap_middle(&self.redactor.redact(text), MAX_FIELD_BYTES).replace('\0', "␀");
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(|item| self.clean_value(item)),
            serde_json::Value::Object(fields) => fields.values_mut().for_each(|field| self.clean_value(field)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
