//! The command against running programs: the real binary, real sockets, and programs that are stuck.
//!
//! The programs are in `programs`. A test starts one as a process of its own, which is this test
//! binary again.

mod gdb;
mod hostile;
mod lldb;
mod programs;
mod sessions;
mod stuck;
mod support;
mod terminal;
mod usage;
