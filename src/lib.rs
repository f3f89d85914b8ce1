//! Forgehand: label an issue `agent`, or write `/agent fix` on a pull request, and it becomes a
//! leased job. A worker checks the repository out into a sandbox, runs a coding agent on any
//! OpenAI-compatible model, verifies the result and publishes a branch and a draft pull request.
//! The program publishes, never the model.
//!
//! # The flow
//!
//! Each stage takes the value before it and returns the next; nothing calls back up. Two things
//! run alongside: a [`recorder::Recorder`] (events out) and a cancellation token (stop in).
//!
//! ```text
//!  HTTP            intake              queue + worker           run                                      publish
//! POST /webhook ─► Delivery ─triage─► Intent ─enqueue─► Job ─claim─► LeasedJob ─► Brief ─► Workspace ─► Solution ─► Verdict ─► [Effect…] ─► GitHub
//!                                                                                 agent turns ─► RunEvent ─► store
//! ```
//!
//! | stage | where | durable after it | if the process dies here |
//! |---|---|---|---|
//! | accept | [`web`], [`intake`] | delivery and jobs, one commit, then 202 | GitHub shows a failed delivery; sending it again is safe |
//! | claim | [`queue`] | state, fence, lease | the lease ends, the job is recovered, the old fence is shut out |
//! | authorize, gather | [`authority`], [`run`] | events | only reads so far: done again |
//! | open | [`workspace`], [`sandbox`] | a marked run folder | used again if complete, else made anew |
//! | solve | [`agent`] | each reply and output: the conversation's log | goes on from the last turn; half-done tool calls are answered as interrupted |
//! | verify | [`run`] | check results | done again |
//! | publish | [`publish`] | the bundle and all effect rows | only the effects go on; the model is not run again |
//! | finish | [`worker`] | job state | one status comment, edited, never repeated |
//!
//! [`crash_points`] goes through what happens when a process dies, moment by moment.
//!
//! What is long over leaves the database into files of its own, and who did what is a chain of rows
//! that shows when one was changed: [`retention`], [`audit`].
//!
//! Work that nobody waits for begins in the same place: the passes of [`unattended`] (queues that are
//! polled, schedules, work graphs) insert jobs, each with the row that says why in one transaction, and
//! write a record of each when it is over.
//!
//! # Layers
//!
//! The modules below stand in layers. A module uses only layers above its own line, never a
//! sibling; `tests/it/tidy.rs` holds this, the length of files, where SQL may stand and that every
//! statement has a conformance test. `foo.rs` is the door of a module, what is in `foo/` is
//! private to it.
//!
//! * Words and nouns are plain data and pure functions.
//! * Ports talk to one outside thing each: [`git`], [`github`], [`model`], [`net`],
//!   [`sandbox`], [`store`].
//! * Abilities combine ports; flows combine abilities; loops and doors drive flows; [`app`] puts
//!   everything together.
//!
//! # Invariants, mostly absences
//!
//! * The agent knows no GitHub and no SQL; it sees a brief and a sandbox and leaves a solution.
//! * No secret enters a sandbox, and nothing leaves one but through the proxy of [`egress`]; host git touches no tree that a sandbox can write.
//! * Only [`publish`] writes to GitHub, from rows that were committed before. Whatever is sent for a
//!   repository passes the gate of [`quota`], which counts for all processes.
//! * The webhook does one transaction and calls nobody.
//! * Every write for a job carries its lease; a worker that lost it can write nothing.
//! * What is verified is what exit codes said, on the base and on a fresh checkout of the change.
//! * Text from outside is capped and sanitised before a model, a log or a comment gets it.
//! * Time, environment and HTTP clients are made in one place each; clippy's `disallowed-methods`
//!   hold this.

// words
#[macro_use] // its macro is written in all others
pub mod fault;
pub mod clock;
pub mod closed;
pub mod code;
pub mod ids;
pub mod language;
pub mod money;
pub mod phrase;
pub mod right;
pub mod secret;
pub mod text;
// nouns
pub mod audit;
pub mod config;
pub mod dev_container;
pub mod draft;
pub mod effect;
pub mod event;
pub mod job;
pub mod milestone;
pub mod mission;
pub mod note;
pub mod permission;
pub mod question;
pub mod repo_config;
pub mod repo_env;
pub mod schedule;
pub mod skill;
pub mod timetable;
// ports
pub mod git;
pub mod github;
pub mod model;
pub mod net;
pub mod sandbox;
pub mod store;
// decisions about failures and money, and what a run keeps of its conversation
pub mod conversation;
pub mod failure;
pub mod ledger;
// abilities
pub mod authority;
pub mod egress;
pub mod memory;
pub mod queue;
pub mod quota;
pub mod recorder;
pub mod workgraph;
pub mod workspace;
// retrieval
pub mod retrieval;
// measurement
pub mod eval;
// tools
pub mod tool;
// agent
pub mod agent;
// flows
pub mod intake;
pub mod publish;
pub mod retention;
pub mod run;
pub mod unattended;
// loops and doors
pub mod demo;
pub mod web;
pub mod worker;
// assembly
pub mod app;
// pages without code
pub mod crash_points;
