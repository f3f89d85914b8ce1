//! From a webhook call to durable intent: [`Delivery::parse`] reads it, [`triage`] decides what
//! it means without touching anything, [`accept`] makes it durable in one transaction. The web
//! layer answers GitHub only after that commit.
//! Never calls GitHub: who may do what is asked by the job, not by the request.

mod accept;
mod command;
mod payload;
mod rebuilt;
mod triage;

pub use accept::{Accepted, Verdict, accept};
pub use command::{Command, CommandProblem, Retry};
pub use payload::{BadDelivery, Delivery, Payload, Repo, Sender};
pub use rebuilt::Rebuilder;
pub use triage::{Intent, RETRY_PUBLISH, Rules, STATUS_REPLY, triage};
