//! Other programs, with std's names: [`Command`] starts one, and [`Child`] is it. A wait for it parks the task.
//!
//! A child is waited for by its pidfd, which is readable when it has ended: by the worker's driver in a task, by poll(2) on a
//! plain thread. Where the system refuses pidfds (Linux before 5.3, or a filter), each child that is waited for costs a thread that
//! waits for it.
//!
//! # What a cancellation can lose
//! | call | cancelled |
//! |---|---|
//! | [`Command::spawn`] | no cancel point |
//! | [`Child::wait`], [`Exit`] | nothing is lost: the child lives on, and may be waited for again |
//! | [`Child::wait_with_output`], [`Command::output`] | what had been read of the output; the child lives on, unless [`kill_on_drop`](Command::kill_on_drop) was set |
//! | [`Command::status`] | the status; the child lives on, unless `kill_on_drop` was set |
//! | reading from and writing to its pipes | nothing: see [`io`](crate::io#what-a-cancellation-can-lose) |
//!
//! # Zombies
//! A child that has ended stays in the system's table until somebody asks for its status. A [`Child`] that is dropped before is looked after
//! here: its status is fetched as soon as it ends, and thrown away. (std leaves it there for as long as the process lives.)

mod child;
mod collect;
mod command;
mod exit;
mod running;

pub use child::{Child, ChildStderr, ChildStdin, ChildStdout};
pub use command::Command;
pub use exit::Exit;

pub use std::process::{
    CommandArgs, CommandEnvs, ExitCode, ExitStatus, Output, Stdio, Termination, abort, exit, id,
};
