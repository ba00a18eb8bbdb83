//! Queues with leases, and functions over a fleet of processes, in direct style.
//!
//! When one machine is not enough, the same program runs as many processes. They share queues,
//! which a server stores, and a process that is killed loses nothing. The server is NATS with
//! JetStream. For tests, simulations and programs on one machine there is an engine in memory.
//!
//! Nothing is `async`. A queue hands out jobs through a [`Receiver`](ecru::channel::Receiver), so
//! they work with `select!`, races and iteration. A delivery is a scope: while a job
//! [runs](Job::run), its lease is renewed, and if the lease is lost, the waits inside are
//! cancelled.
//!
//! | purpose | see |
//! |---|---|
//! | join a fleet | [`Fleet::connect`], [`Fleet::local`] |
//! | open a queue, and send jobs | [`Fleet::queue`], [`Queue::send`], [`Queue::send_keyed`] |
//! | send several jobs or none | [`Queue::send_all`] |
//! | run the jobs of a key in order | [`QueueBuilder::per_key`] |
//! | run urgent jobs first | [`QueueBuilder::priorities`], [`Queue::priority`] |
//! | send jobs for later, or again and again | [`Queue::send_after`], [`Queue::send_at`], [`Queue::every`], [`Queue::cron`] |
//! | work on jobs | [`Queue::jobs`], [`Job::run`], [`Job::done`], [`Unsettled`] |
//! | handle what fails | [`Job::retry_after`], [`Job::bury`], [`Queue::dead`] |
//! | operate a queue | [`Queue::cancel`], [`Queue::pause`], [`Queue::stats`], [`Job::progress`], [`Queue::update`], [`Fleet::on_warning`], [`Fleet::metrics`] |
//! | call functions that run anywhere | [`Fleet::function`], [`Function::serve`], [`Function::call`], [`Function::call_keyed`] |
//! | map a function over many items | [`Function::map`] |
//! | look after the servers | the program `fleet`: [below](#operating-the-servers) |
//!
//! # Examples
//! A queue and a worker. With `Fleet::connect(s, "nats://127.0.0.1:4222")?` instead of
//! `Fleet::local(s)`, the two can be different processes.
//!
//! ```
//! use ecru_fleet::Fleet;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Mail {
//!     to: String,
//!     text: String,
//! }
//!
//! fn deliver(mail: &Mail) -> Result<(), ecru::Cancelled> {
//!     println!("to {}: {}", mail.to, mail.text);
//!     // The waits of the work are cancelled if the lease is lost.
//!     ecru::yield_now()
//! }
//!
//! ecru::run(|| {
//!     ecru::scope(|s| {
//!         let mails = Fleet::local(s).queue::<Mail>("mails").attempts(5).open()?;
//!         mails.send(Mail { to: "ann".into(), text: "hello".into() })?;
//!
//!         for job in mails.jobs(16)?.iter().take(1) {
//!             match job.run(deliver)? {
//!                 Ok(()) => job.done()?,
//!                 // Dropping the job lets it run again later.
//!                 Err(_) => drop(job),
//!             }
//!         }
//!         Ok::<(), std::io::Error>(())
//!     })
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A function that runs in every process that serves it:
//!
//! ```
//! use ecru_fleet::Fleet;
//!
//! ecru::run(|| {
//!     ecru::scope(|s| {
//!         let fleet = Fleet::local(s);
//!         let length = fleet.function("length", |text: String, _run| Ok(text.len())).open()?;
//!         // In a worker process, this is all: `length.serve(16)`.
//!         s.spawn_daemon({
//!             let length = length.clone();
//!             move || length.serve(16)
//!         });
//!         assert_eq!(length.call("hello".into())?, 5);
//!         let words = ["one", "two", "three"].map(String::from);
//!         let lengths: Vec<usize> = length.map("words", words)?.collect::<Result<_, _>>()?;
//!         assert_eq!(lengths, [3, 3, 5]);
//!         Ok::<(), std::io::Error>(())
//!     })
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What is promised
//! - A job whose `send` has returned `Ok` runs at least once, or is among the dead, whatever
//!   processes die. It may run more than once, and for a short time in two places.
//! - Jobs are acknowledged after the work, never before.
//! - Of all attempts at a job, one is told by [`done`](Job::done) that it has settled the job. An
//!   attempt that gets no answer is told that, and can [ask again](Settlement::ask).
//! - An attempt counts when the work has begun: in [`Job::run`], it is recorded before. A job that
//!   was only handed out never dies, whatever its process does.
//! - At most one job of each key is queued or running. With [`per_key`](QueueBuilder::per_key) jobs
//!   of a key run in order, one at a time.
//! - Each index of a map, and each key of `call_keyed`, has one stored result as long as results
//!   are kept.
//! - Leases are renewed by a thread of their own, so that code that blocks or computes in a job
//!   costs no other job its lease.
//! - A holder that cannot renew its lease gives up when the lease has ended by its own clock.
//! - When the scope of the fleet is cancelled, no more jobs are taken, those that were not begun
//!   are given back, and those inside [`Job::run`] or a served function get their time.
//!
//! Not promised are the order of jobs without `per_key` and `priorities`, at-most-once, and jobs of
//! more than 1 MiB. The durability of what is stored is that of the server. In memory, everything
//! is lost with the process.
//!
//! # What a fleet cannot fence
//! JetStream hands a job out again when its lease has ended, and accepts what an earlier holder
//! says of it. So each attempt is stored when it begins. The first one at a job settles it if the
//! server confirms that within the lease, by the holder's clock. Any other one settles it only if
//! no later one has begun since. These remain:
//!
//! - Two holders may work at the same time, for as long as one of them stands still and has not
//!   noticed that its lease has ended. Effects outside of the fleet can be guarded by
//!   [`Job::fence`], which is greater for each later holder.
//! - A process that stands still for more than ten minutes, and for more than two leases, after it
//!   has received a job and before it has begun it, may work on a job that is done.
//! - A first attempt may send within its lease that it is done, and the network may deliver that
//!   after the lease has ended and another attempt has begun. Then the first one is told that it
//!   has lost, but the message of the job is gone. If the other one dies or fails, the job is not
//!   tried again.
//! - A job that is cancelled at the moment in which it is done may be both.
//! - Servers that are killed, or whose consumer is deleted, may forget what they have confirmed
//!   just before. Then a job that is done comes again.
//! - While the servers have no room for the records, attempts are not counted, and only the clock
//!   of the holder decides whether it may settle a job.
//! - A job that is worked on outside of [`Job::run`] is recorded soon after the program has first
//!   looked at it. A process that dies before that has not begun it.
//!
//! # Errors, retries and the dead
//! A job that is dropped, or returned by [`Job::retry_after`], is handed out again after a pause.
//! So is a job whose process has died, when its lease has ended. After its last
//! [attempt](QueueBuilder::attempts) a job goes to the [dead](Queue::dead), with the reason. There
//! it stays until it is [revived](Dead::revive) or [discarded](Dead::discard).
//!
//! # Programs in other languages
//! On the servers, a queue consists of ordinary streams and messages, so any client of NATS can
//! send jobs and read them. The names stay as they are in all releases that read this version of
//! jobs. For a queue `mill`:
//!
//! | what | where |
//! |---|---|
//! | the jobs | the stream `fleet-jobs-q_mill`, one message for each job that is queued or running |
//! | a job | a message to `fleet.jobs.q_mill.ID` |
//! | a job with the [priority](QueueBuilder::priorities) 1, 2 or 3 | a message to `fleet.jobs-1.q_mill.ID` and so on |
//! | a job of a queue with [`per_key`](QueueBuilder::per_key) | a message to `fleet.jobs.q_mill.KEY.NAME`. In the other subjects `KEY==NAME` stands for `ID` |
//! | what hands out the jobs | the durable pull consumer `workers` of that stream, and `workers-1` to `workers-3` for the other priorities |
//! | the places of a limit, if there are priorities | the stream `fleet-attempts-q_mill`, messages to `fleet.attempts.q_mill.=permits.NUMBER`, which its consumer `permits` lends |
//! | the last attempt of each job that was handed out again | the stream `fleet-attempts-q_mill`, messages to `fleet.attempts.q_mill.ID.NUMBER` |
//! | when jobs were handed out, if there is a [rate](QueueBuilder::rate) | the same stream, a message to `fleet.attempts.q_mill.=rate.starts` |
//! | the settings, as they should be | the same stream, a message to `fleet.attempts.q_mill.=settings.record`. The stream of the jobs and the consumer `workers` note in their metadata `fleet-settings` which record their settings are from |
//! | the last changes of the settings | the same stream, a message to `fleet.attempts.q_mill.=settings.changes` |
//! | the last [schedule](Queue::every) of each name | the same stream, messages to `fleet.attempts.q_mill.=schedules.NAME` |
//! | the jobs that processes work on for the first time | the same stream, messages to `fleet.attempts.q_mill.=pages.PROCESS` |
//! | how far a job is, for a day at most | the same stream, a message to `fleet.attempts.q_mill.=progress.ID` |
//! | the dead | the stream `fleet-dead-q_mill`, messages to `fleet.dead.q_mill.ID.NUMBER`, where the job had that number in its stream |
//! | an announcement that a job was cancelled | `fleet.cancel.q_mill`, the payload `ID` or `ID NUMBER`, which is not stored. Each process that takes jobs listens to it |
//! | that the results of a function `mill` wait for room on the servers | a subscription of their process to `fleet.waiting.f_mill`, to which nothing is sent |
//! | an announcement that the settings change | `fleet.cancel.q_mill`, the payload `* LEASE` with the new lease in nanoseconds |
//!
//! `ID` is the key of the job. Each byte of it other than the letters and digits of ASCII, `_` and
//! `-` is written as `=` and two hexadecimal digits in capitals, so `user 7` is `user=207`. A job
//! without a key has a random id. The payload is JSON, `{"v":1,"data":..}`, with the job as `serde`
//! writes it. This sends one with the tool of NATS:
//!
//! ```sh
//! nats publish --jetstream fleet.jobs.q_mill.user=207 '{"v":1,"data":"a sack of rye"}'
//! ```
//!
//! The acknowledgement of the stream tells that the job is stored. The error 10077 ("maximum
//! messages per subject exceeded") tells that there is a job with this id. A job has the header
//! `Nats-Msg-Id`, so it can be published again if there is no answer: then the acknowledgement says
//! that it is a duplicate. The value is never used for another job. It is the random id, or for a
//! job with a key `ID.RANDOM`, because a key is free again as soon as its job is done.
//!
//! In a queue with priorities, a job with a key also has the headers
//! `Nats-Expected-Last-Subject-Sequence: 0` and
//! `Nats-Expected-Last-Subject-Sequence-Subject: fleet.*.q_mill.ID`. The error 10071 or 10164
//! ("wrong last sequence") then tells that there is a job with this id.
//!
//! A job may have the header `traceparent`, with the trace that it belongs to as the W3C writes it.
//!
//! A job with the header `Fleet-After` is handed out so many milliseconds after it was stored, or
//! later: a worker that gets it earlier returns it with a pause.
//!
//! A dead job has the payload of the job, its number of attempts in the header `Fleet-Attempts`,
//! and the reason as a string of JSON in `Fleet-Reason`. One whose priority was not 0 has it in
//! `Fleet-Priority`.
//!
//! Workers in other languages must do what [`Job::run`] and [`Job::done`] do: renew the lease by
//! `+WPI`, and record attempts and their ends. That, and the calls and results of functions, may
//! change with each release.
//!
//! # Operating the servers
//! The package has a program, `fleet`, for the operators of servers. `fleet doctor URL` checks
//! versions, replicas, disks, clocks, permissions and limits, and says what to do. `fleet top URL`
//! shows what is queued, running and dead, and how many processes work. `fleet dead list`, `show`,
//! `revive` and `discard` work on the dead of a queue, `fleet job` finds a job, and `fleet pause`,
//! `resume` and `drain` stop a queue, and `fleet repair` removes jobs that a server lists although
//! they are done. They need not know what a job consists of. `cargo install ecru-fleet` installs
//! it. With `--features web`, `fleet web URL` serves a page with the queues, what is running where,
//! and the dead.
//!
//! # Traces
//! With the feature `tracing`, a job carries the trace that it was sent in. Each [`Job::run`], and
//! each run of a function, is in a span `job` of the target `ecru_fleet`, at the level `INFO`, with
//! the fields `queue`, `id`, `attempt` and `trace_id`. What is sent inside belongs to the same
//! trace. The functions `in_trace` and `Fleet::carry_traces` connect that with traces from
//! elsewhere, for instance those of OpenTelemetry. Programs whose jobs wait need the layer of
//! `ecru-tracing`, which keeps the spans of tasks apart. The jobs of schedules and of maps begin
//! traces of their own.
//!
//! # Beside other systems
//! The file `FEATURES.md` of this package has what a fleet has and lacks, beside Sidekiq, Oban,
//! River, asynq, Celery and Temporal, with the test of each feature.
//!
//! # Tests
//! [`Fleet::local`] works in simulations ([`ecru::sim`]): leases end in virtual time, and each
//! seed is another interleaving. For that, enable the feature `sim` of this crate.

mod batch;
mod calls;
mod codec;
mod core;
mod cron;
mod dead;
mod engine;
mod errors;
mod every;
mod fleet;
mod function;
mod gate;
mod held;
mod id;
mod job;
mod keeper;
mod later;
mod map;
mod metrics;
mod outcome;
mod panics;
mod per_key;
mod priority;
mod progress;
mod pull;
mod queue;
mod renewals;
mod results;
mod run;
mod schedule;
mod send;
mod serve;
mod settings;
mod settle;
mod shared;
mod stats;
#[cfg(test)]
mod tests;
#[cfg(feature = "tracing")]
mod trace;
mod update;
mod waiting;
mod wall;

pub use codec::Wire;
pub use dead::Dead;
pub use ecru::Daemons;
pub use errors::{CallError, JobError, LeaseLost, SendError};
pub use fleet::Fleet;
pub use function::{Function, FunctionBuilder};
pub use id::JobId;
pub use job::Job;
pub use progress::Progress;
pub use queue::{Queue, QueueBuilder};
pub use results::Results;
pub use run::Run;
pub use send::{Pending, Sent};
pub use settle::{Settlement, Unsettled};
pub use stats::Stats;
#[cfg(feature = "tracing")]
pub use trace::in_trace;
pub use update::Update;

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
