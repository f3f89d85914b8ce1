//! Stories of the whole service, told on both databases: somebody does something on GitHub, and
//! somebody sees something there. Never looks inside the program, except into its database.

mod ask;
mod authority;
mod branch;
mod checks;
mod claim;
mod code;
mod crowd;
mod delivery;
mod draft;
mod egress;
mod fault;
mod fork;
mod hostile;
mod label;
mod line;
mod lost;
mod memory;
mod money;
mod names;
mod outcome;
mod pulls;
mod rebase;
mod repository;
mod restart;
mod review;
mod reviews;
mod secret;
mod setup;
mod stop;
mod threads;
mod trust;
mod verbs;
mod words;
