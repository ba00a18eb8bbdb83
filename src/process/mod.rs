//! Other programs, with the names of `std`: [`Command`] starts one, and [`Child`] represents it. A
//! wait for a child parks the task.
//!
//! A child is waited for through its pidfd, which becomes readable when the child has ended. In a
//! task the worker's driver waits for it, and on a plain thread poll(2) does. Where the system
//! refuses pidfds (Linux before 5.3, or a filter), a thread is started for each child that is
//! waited for.
//!
//! # What a cancellation can lose
//! | call | what is lost |
//! |---|---|
//! | [`Command::spawn`] | nothing: it is not a cancellation point |
//! | [`Child::wait`], [`Exit`] | nothing: the child lives on and can be waited for again |
//! | [`Child::wait_with_output`], [`Command::output`] | the output that has been read |
//! | [`Command::status`] | the status |
//! | reading and writing its pipes | nothing: see [`io`](crate::io#what-a-cancellation-can-lose) |
//!
//! After the calls that lose the output or the status, the child lives on, unless
//! [`kill_on_drop`](Command::kill_on_drop) was set.
//!
//! # Zombies
//! A child that has ended stays in the system's process table until its parent fetches its status.
//! If a [`Child`] is dropped before that, this module fetches the status as soon as the child ends,
//! and discards it. (`std` leaves the child in the table for as long as the process lives.)

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
