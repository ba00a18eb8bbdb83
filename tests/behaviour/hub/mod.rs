//! Rows of `doc/behaviour/hub.md`.

mod fanout;
mod mixer;
mod multiplexer;
mod topics;
