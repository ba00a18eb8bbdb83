//! PostgreSQL in direct style: [`tokio_postgres`] over ecru's sockets, without a tokio runtime.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! ecru::run(|| {
//!     let mut client = ecru_postgres::connect("postgres://me:secret@localhost/shop")?;
//!     for row in client.query("SELECT name FROM goods WHERE price < $1", &[&100])? {
//!         println!("{}", row.get::<_, &str>(0));
//!     }
//!     // Commits if the closure returns `Ok`, and otherwise rolls back.
//!     client.transaction(|t| {
//!         t.execute("UPDATE goods SET price = price + 1", &[])?;
//!         t.execute("INSERT INTO log VALUES ('dearer')", &[])
//!     })?;
//!     // The limit also ends the query in the server, and the connection stays usable.
//!     let limit = Duration::from_secs(1);
//!     let _ = ecru::timeout(limit, || client.execute("SELECT pg_sleep(3600)", &[]));
//!     Ok::<_, ecru_postgres::Error>(())
//! })?;
//! # Ok::<_, ecru_postgres::Error>(())
//! ```
//!
//! [`Connector`] has settings, such as TLS, and makes pools. [`Client`] has the calls. The rows, the
//! types of parameters and the rest of the vocabulary are those of [`tokio_postgres`], and its
//! features, such as `with-chrono-0_4`, are enabled by a dependency on it.
//!
//! # How it works
//! The connection is a task without a stack, which is spawned in the run
//! ([`ecru::spawn_future`]) and ends when the client is dropped. A call sends a request to that task
//! and parks its own. So a run waits at its end for clients that still exist, and the end of a run by
//! a signal closes the connections.
//!
//! # Cancellation
//! Every call that talks to the server is a cancellation point. When a call is cancelled while the
//! server works on it, the client sends PostgreSQL's cancel request, and then waits for the server to
//! end the query. This takes at most five seconds, in which the cancellation is not seen. So the
//! connection is between two queries afterwards, and inside a transaction that has failed. If the
//! query had succeeded before the request arrived, the call returns its result. If the server does
//! not answer, the client is closed.

mod client;
mod connect;
mod copy;
mod error;
mod notifications;
mod statements;
#[cfg(feature = "tls")]
mod tls;

pub use client::Client;
pub use connect::{Connector, connect};
pub use error::Error;
pub use tokio_postgres;
