//! A NATS client in direct style, for programs on [`ecru`].
//!
//! Nothing is `async`. A [`Subscription`] is a [`Receiver`](ecru::channel::Receiver), and a
//! [`Request`] is a [`Source`](ecru::Source), so both work with `select!`, races and iteration.
//! Every wait can be cancelled. The tasks of a connection are daemons of the scope that it was
//! connected in, and end with it.
//!
//! | purpose | see |
//! |---|---|
//! | connect | [`Client::connect`], [`Options`] |
//! | publish and subscribe | [`Client::publish`], [`Client::subscribe`], [`Client::subscription`] |
//! | ask and answer | [`Client::request`], [`Message::reply`] |
//! | store messages, and work through a queue of them | [`Client::jetstream`], [`jetstream`] |
//! | know what happens | [`Client::events`], [`Client::flush`], [`Client::close`], [`Error`] |
//!
//! # Examples
//! A service and its client. This example talks to a server that follows a script. Against a
//! `nats-server` on this machine, the address is `nats://127.0.0.1:4222`.
//!
//! ```
//! use std::io::{BufRead, BufReader, Write};
//!
//! use ecru_nats::Client;
//!
//! # fn script(listener: &ecru::net::TcpListener) -> std::io::Result<()> {
//! #     let (stream, _) = listener.accept()?;
//! #     let mut out = &stream;
//! #     out.write_all(b"INFO {\"version\":\"2.12.0\",\"headers\":true,\"max_payload\":1048576}\r\n")?;
//! #     let mut lines = BufReader::new(&stream).lines();
//! #     while let Some(line) = lines.next().transpose()? {
//! #         let words: Vec<&str> = line.split(' ').collect();
//! #         match words[0] {
//! #             "PING" => out.write_all(b"PONG\r\n")?,
//! #             "PUB" => {
//! #                 let payload = lines.next().unwrap()?;
//! #                 // The service has sid 2, and answers to requests have sid 1.
//! #                 let sid = if words[1] == "double" { 2 } else { 1 };
//! #                 let head = words[1..words.len() - 1].join(" ").replacen(' ', &format!(" {sid} "), 1);
//! #                 let head = if words.len() == 3 { format!("{} {sid}", words[1]) } else { head };
//! #                 write!(out, "MSG {head} {}\r\n{payload}\r\n", payload.len())?;
//! #             }
//! #             _ => {}
//! #         }
//! #     }
//! #     Ok(())
//! # }
//! # let listener = ecru::net::TcpListener::bind("127.0.0.1:0")?;
//! # let url = format!("nats://{}", listener.local_addr()?);
//! ecru::run(|| {
//!     ecru::scope(|s| {
//! #       s.spawn_daemon(|| script(&listener));
//!         let client = Client::connect(s, &url)?;
//!         let questions = client.subscribe("double")?;
//!         let service = client.clone();
//!         s.spawn_daemon(move || {
//!             for question in &questions {
//!                 let number: u32 = str::from_utf8(question.payload()).unwrap().parse().unwrap();
//!                 let answer = (2 * number).to_string();
//!                 service.publish(question.reply().unwrap(), answer).unwrap();
//!             }
//!         });
//!         let answer = client.request("double", "21")?.get()?;
//!         assert_eq!(&answer.payload()[..], b"42");
//!         Ok::<(), ecru_nats::Error>(())
//!     })
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits against hostile peers
//! The client keeps at most one message of [`Options::max_message_size`] and one line of 64 KiB of
//! what it has not understood, and at most [`capacity`](SubscriptionBuilder::capacity) messages of
//! each subscription. A peer that does not speak NATS loses its connection. Subjects, headers and
//! names are checked before they are sent, so no data can become a command. A message that is
//! larger than the server accepts is refused before it is sent.
//!
//! Passwords, tokens, keys and payloads appear in no error and in no `Debug` text. Without TLS,
//! passwords and tokens are readable on the network. Use `tls://` or [`Options::require_tls`]
//! outside of machines and networks that you trust.
//!
//! # What is left out
//! WebSockets, the old request style with an inbox for each request, `UNSUB` after a number of
//! messages, the services framework, and draining a single subscription. [`jetstream`] lists what
//! of JetStream is left out.

mod auth;
mod client;
mod error;
#[cfg(test)]
mod fuzz;
mod headers;
pub mod jetstream;
mod link;
mod message;
mod nkey;
mod options;
mod random;
mod request;
mod secret;
mod server;
mod session;
mod subscription;
mod transport;
mod wire;

pub use client::{Client, Event};
pub use ecru::Daemons;
pub use error::{Error, ErrorKind};
pub use headers::{Headers, Status};
pub use message::Message;
pub use options::Options;
pub use request::Request;
pub use server::ServerInfo;
pub use subscription::{Subscription, SubscriptionBuilder};

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
