//! What happens when a process dies, hangs or is cut off, moment by moment. This page has no code;
//! what it says is held by the stories named in it. Never a promise that no test looks at.
//!
//! # How to read it
//!
//! *L* is `queue.lease_seconds` (60 s), *H* `queue.heartbeat_seconds` (10 s), *M*
//! `queue.margin_seconds` (15 s). A dead worker's job is in other hands after at most *L* + *H*,
//! and at once where the same process starts again on its state folder: the lock on it says that
//! the one before is gone ([`crate::app::Instance`]). "Done again" never means that somebody sees
//! it twice.
//!
//! # On the way in
//!
//! | the process dies | what is durable | what happens then |
//! |---|---|---|
//! | while it reads a webhook | nothing | GitHub logs a failed delivery. The look into its log ([`crate::worker::Poll`]) takes it within minutes; so does a person's redelivery |
//! | before the commit of [`crate::intake::accept`] | nothing | the same |
//! | after the commit, before the answer 202 | the delivery and its jobs | GitHub logs a failure. Its redelivery is known by its GUID and its meaning and changes nothing; the job is worked on already |
//! | while the whole service is away | nothing | the log of three days is read at the start, oldest first |
//!
//! # At work
//!
//! | the process dies | what is durable | what happens then |
//! |---|---|---|
//! | in the statement that claims | the claim or nothing | nothing: still queued. The claim: its lease ends, the next claim has a higher fence |
//! | while it asks who may what, and reads the issue | the claim | done again: so far it only read |
//! | while it prepares the workspace | marked folders | used again if complete, else made anew; the cleaner removes what no living job owns |
//! | between two turns of the model | each reply and each output, as they came ([`crate::conversation`]) | the next worker goes on after the last turn; no turn is paid for twice |
//! | during a call of the model | what was set aside for it | the call is made again; the ledger has the one that ended. What the broken one cost is not known here, and what was set aside is freed with the fence |
//! | during a command of a tool | the call, not its output | the sandbox dies with the worker; the call is answered as interrupted, and the agent decides |
//! | during the checks | the solution | the checks run again |
//! | before the commit that stores the effects | the solution | checked and planned again, with the same names |
//! | after it | every effect, as a row | only the effects go on; the model is not asked again |
//!
//! # Publishing
//!
//! An effect is a row before it is a call ([`crate::publish`]), and a call is looked up before it is
//! made.
//!
//! | the process dies | the row says | what happens then |
//! |---|---|---|
//! | before the row says `sending` | `pending` | performed as if for the first time |
//! | after that, before the call | `sending`, and `unknown` when the lease was taken back | nothing is sent before an earlier call can no longer land (two call timeouts and GitHub's list lag, 75 s); then it is looked up, not found, made |
//! | while the call is under way, or GitHub has done it and the answer is lost | the same | the same wait; then it is looked up and found: by branch and commit, by head and base, by the marker of the job and its position |
//! | after the answer, before the row says `done` | the same | found |
//! | after the last row, before the job is finished | all rows final | finished |
//!
//! A worker that is frozen and wakes up (a zombie) is shut out twice: each of its writes carries a
//! fence and a token that are not in force any more, and by its own clock it stops calling GitHub
//! *M* before its lease ends: nothing is written there, looked up, or fetched ([`crate::right`]).
//!
//! # The database goes away
//!
//! | what | what happens |
//! |---|---|
//! | a connection breaks within a transaction | nothing of it is there. The step is tried again; a job's attempt fails as "database" and comes back |
//! | the answer to a commit is lost | not known, and treated so: a lease is looked up by its token, an event by its position, a delivery comes again and is known |
//! | PostgreSQL restarts | workers go on when it answers; leases that ended meanwhile are taken back by somebody, and the old holder is shut out |
//! | a failover loses the last second | fences may repeat, tokens of 128 bits do not. An effect whose row went back to `pending` is looked up before it is made |
//! | power fails under SQLite | every acknowledged transaction was synced (`synchronous = FULL`); a group that was not is undone as a whole, and nobody was told of it |
//! | the disk is full, or answers with errors | the transaction fails as a whole, GitHub is told that its delivery was not taken; the log says what is the matter |
//!
//! # The loops
//!
//! The scheduler's loops run in one process of several ([`crate::queue::Queue::lead`]). When it dies,
//! another leads after at most *L* + *H*. Should two lead for a moment, rows decide: one fire of a
//! schedule has one job, one issue of a queue has one job, a milestone has one holder.
//!
//! # The stories
//!
//! In `tests/it`: `fault::points` (every failpoint: a crash, an error, a hang of two leases, on both
//! databases), `fault::receiver`, `fault::postgres` and `fault::sqlite` (broken connections, lost
//! answers, restarts, locks, torn logs), `fault::disk` (no room), `fault::eio` (a disk that fails),
//! `crash::kills` and `crash::containers` (`kill -9` at random moments), `crash::zombie` (frozen workers), `crash::drain` (orderly ends), `crash::poison` (a job
//! that takes its workers down), `crash::shared` and `cluster::partition` (several processes, networks
//! that are cut), `cluster::replicas` (schedulers), `effects::faults` and `effects::schedule` (what GitHub
//! can answer, and schedules of crashes and late calls), `reconcile` (a service that was away),
//! `transfer::restore` (a database put back from a backup), `night` (a day of unattended work with
//! kills), `store::group`.
