//! A server that performs slow tasks for its clients over TCP, and the clients that measure it.
//!
//! A *request* is a line `<type>:<seed>`. Type 0 (and 2) is a *CPU task*, which computes, and type
//! 1 is an *IO task*, which sleeps. The *answer* is one raw byte. A malformed line gets no answer.
//! The *stages* differ in how much of the work runs at once. In every stage the same seeds give the
//! same answers, so the clients' sum shows whether a stage is correct, and the time shows how fast
//! it is.

pub mod cache;
pub mod counts;
pub mod fleet;
pub mod lines;
pub mod load;
pub mod request;
pub mod server;
pub mod stage;
pub mod work;
