//! A server that does slow tasks for its clients over TCP, and the clients that measure it.
//!
//! A *request* is a line `<type>:<seed>`: type 0 (and 2) is a *CPU task*, which computes, type 1 an *IO task*, which sleeps. The
//! *answer* is one raw byte. A line that is no request gets no answer. The *stages* are how much of it happens at once; whatever
//! the stage, the same seeds give the same answers, so the clients' sum tells whether a stage is right and the time how good.

pub mod cache;
pub mod counts;
pub mod lines;
pub mod load;
pub mod request;
pub mod server;
pub mod stage;
pub mod work;
