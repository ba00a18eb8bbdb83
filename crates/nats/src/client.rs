//! The client: a handle of a connection.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ecru::channel::{self, Receiver};

use crate::error::{Error, ErrorKind};
use crate::jetstream::JetStream;
use crate::link::{Phase, Shared, unique};
use crate::message::{Message, Text, check_name, check_pattern, check_subject};
use crate::options::Options;
use crate::request::Request;
use crate::server::{Server, ServerInfo};
use crate::session::{self, Servers};
use crate::subscription::{Subscription, SubscriptionBuilder};
use ecru::Daemons;

/// A connection to a NATS cluster. Clones share it.
///
/// Its tasks are daemons of the scope that it was connected in. When that scope ends, what was
/// published is sent, and the client ends: calls return [`Closed`](crate::ErrorKind::Closed), and
/// subscriptions are disconnected. If there is no connection at that moment, what was not sent is
/// lost. [`flush`](Client::flush) shows that the server has everything.
///
/// Handles can be used in any task and on any thread. The connection does not end when they are
/// dropped. What one task publishes arrives in that order.
///
/// If the connection is lost, the client connects to any server of the cluster that it knows, and
/// renews its subscriptions. What is published meanwhile is kept up to
/// [`Options::send_buffer`] and sent later. Requests that had been sent fail with
/// [`Disconnected`](crate::ErrorKind::Disconnected), because they may have been processed. Messages
/// that were being sent at that moment may be lost; the next [`flush`](Client::flush) fails then, and
/// JetStream's acknowledgements tell of each message. A login that
/// is refused counts as a failed attempt, so the client tries again: see
/// [`Options::max_reconnects`] and [`Client::events`].
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use ecru_nats::{Client, Error, Message};
///
/// /// Asks the mill for flour, and says what it is for.
/// fn grind(client: &Client) -> Result<String, Error> {
///     let question = Message::new("mill.grind", "rye").with_header("For", "bread")?;
///     let answer = client.request_message(&question)?.timeout(Duration::from_secs(2)).get()?;
///     Ok(String::from_utf8_lossy(answer.payload()).into_owned())
/// }
///
/// /// Tells everything that listens, and waits until the server knows.
/// fn announce(client: &Client) -> Result<(), Error> {
///     client.publish("bakery.open", "")?;
///     client.publish_message(&Message::new("bakery.bread", "rye").with_reply("bakery.orders"))?;
///     client.flush()
/// }
///
/// /// Answers questions until the client ends.
/// fn serve(client: &Client) -> Result<(), Error> {
///     for question in &client.subscribe("mill.*")? {
///         if let Some(reply) = question.reply() {
///             client.publish(reply, "ground")?;
///         }
///     }
///     Ok(())
/// }
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         // Nothing listens there.
///         let error = Client::connect(s, "nats://127.0.0.1:1").unwrap_err();
///         assert_eq!(error.kind(), ecru_nats::ErrorKind::Connect);
///     });
/// });
/// ```
pub struct Client {
    shared: Arc<Shared>,
    /// How many losses this handle has reported.
    reported: AtomicU64,
}

impl Clone for Client {
    fn clone(&self) -> Client {
        let reported = AtomicU64::new(self.reported.load(Ordering::Relaxed));
        Client { shared: Arc::clone(&self.shared), reported }
    }
}

/// What happened to a connection. See [`Client::events`].
///
/// # Examples
/// ```
/// use ecru_nats::{Client, Event};
///
/// /// Reports what happens to the connection, until the client ends.
/// fn watch(client: &Client) {
///     for event in &client.events() {
///         match event {
///             Event::Connected { server } => println!("connected to {server}"),
///             Event::Disconnected { server, why } => println!("lost {server}: {why}"),
///             Event::SlowConsumer { subject } => println!("messages of {subject} are dropped"),
///             other => println!("{other:?}"),
///         }
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The client is connected, for the first time or again.
    Connected {
        /// The server, as `host:port`.
        server: String,
    },
    /// The connection was lost. The client tries to connect again.
    Disconnected {
        /// The server, as `host:port`.
        server: String,
        /// Why the connection was lost.
        why: String,
    },
    /// No server of a round could be connected to.
    ReconnectFailed {
        /// The error of the last one.
        why: String,
    },
    /// The server is about to stop. The client moves to another one, if it knows one.
    LameDuck {
        /// The server, as `host:port`.
        server: String,
    },
    /// The server reported an error, for instance a permissions violation.
    ServerError {
        /// The server, as `host:port`.
        server: String,
        /// Its words.
        words: String,
    },
    /// A subscription began to drop messages, because its channel is full.
    SlowConsumer {
        /// Its subject.
        subject: String,
    },
}

impl Client {
    /// Connects to the first of the servers that accepts the client, with the default settings.
    /// `urls` is a comma-separated list like `nats://user:password@host:4222,tls://host`. The tasks
    /// of the connection are daemons of the scope `s`.
    ///
    /// # Errors
    /// Returns the errors of [`Options::connect`].
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled attempt leaves nothing behind.
    pub fn connect<'scope>(s: &'scope impl Daemons<'scope>, urls: &str) -> Result<Client, Error> {
        Options::new().connect(s, urls)
    }

    pub(crate) fn connect_with<'scope>(
        s: &'scope impl Daemons<'scope>,
        urls: &str,
        options: Options,
    ) -> Result<Client, Error> {
        let mut servers = Servers::new(Server::parse_list(urls)?);
        let session = servers.connect(&options)?;
        let (jobs, to_do) = channel::unbounded();
        let shared = Arc::new(Shared::new(options, jobs));
        let generation = session.announce(&shared);
        let own = Arc::clone(&shared);
        s.spawn_boxed_daemon(
            "nats",
            Box::new(move || session::run(&own, servers, session, generation)),
        );
        s.spawn_boxed_daemon("nats-tasks", Box::new(move || session::host(&to_do)));
        Ok(Client { shared, reported: AtomicU64::new(0) })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Publishes a message. It has been queued when the call returns. See [`flush`](Client::flush),
    /// and JetStream for publishing with an acknowledgement.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) for a malformed subject,
    /// [`TooLarge`](crate::ErrorKind::TooLarge), [`Closed`](crate::ErrorKind::Closed) and
    /// [`Cancelled`](crate::ErrorKind::Cancelled). In each case nothing was published.
    ///
    /// # Cancellation
    /// This is a cancellation point. It waits while more than [`Options::send_buffer`] is unsent.
    pub fn publish(&self, subject: &str, payload: impl Into<Bytes>) -> Result<(), Error> {
        self.publish_message(&Message::new(subject, payload))
    }

    /// Publishes a message with its headers and the subject for answers.
    ///
    /// # Errors
    /// Returns the errors of [`publish`](Client::publish).
    ///
    /// # Cancellation
    /// Behaves like [`publish`](Client::publish).
    pub fn publish_message(&self, message: &Message) -> Result<(), Error> {
        check(message)?;
        self.shared.publish(message, true)
    }

    /// Subscribes to a subject, which may have wildcards: `*` for one token, `>` for the rest.
    ///
    /// # Errors
    /// Returns the errors of [`SubscriptionBuilder::open`].
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has not subscribed.
    pub fn subscribe(&self, subject: &str) -> Result<Subscription, Error> {
        self.subscription(subject).open()
    }

    /// Returns a builder of a subscription with a queue group or another capacity.
    pub fn subscription<'a>(&'a self, subject: &'a str) -> SubscriptionBuilder<'a> {
        SubscriptionBuilder::new(self, subject)
    }

    /// Sends a request. The answer is awaited through the result, which is a source.
    ///
    /// # Errors
    /// Returns the errors of [`publish`](Client::publish). In each case nothing was sent.
    ///
    /// # Cancellation
    /// Behaves like [`publish`](Client::publish).
    ///
    /// # Examples
    /// ```
    /// use ecru_nats::{Client, Error};
    ///
    /// /// Asks two services at once.
    /// fn ask(client: &Client) -> Result<usize, Error> {
    ///     let price = client.request("mill.price", "rye")?;
    ///     let stock = client.request("mill.stock", "rye")?;
    ///     Ok(price.get()?.payload().len() + stock.get()?.payload().len())
    /// }
    /// ```
    pub fn request(&self, subject: &str, payload: impl Into<Bytes>) -> Result<Request, Error> {
        self.request_message(&Message::new(subject, payload))
    }

    /// Sends a request with headers. The message's own subject for answers is not used.
    ///
    /// # Errors
    /// Returns the errors of [`request`](Client::request).
    ///
    /// # Cancellation
    /// Behaves like [`publish`](Client::publish).
    pub fn request_message(&self, message: &Message) -> Result<Request, Error> {
        check(message)?;
        let queued = self.shared.request(message, None, true)?;
        Ok(Request::new(&self.shared, message.subject.clone(), queued))
    }

    /// Sends a request that several services answer. Their answers arrive in the subscription, which
    /// does not end by itself: the caller decides how many or how long to wait for. If nothing
    /// subscribes to the subject, a message with the status 503 arrives.
    ///
    /// # Errors
    /// Returns the errors of [`publish`](Client::publish). In each case nothing was sent.
    ///
    /// # Cancellation
    /// Behaves like [`publish`](Client::publish).
    ///
    /// # Examples
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// # fn f(client: &ecru_nats::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let answers = client.request_many("mills.report", "")?;
    /// while let Ok(answer) = answers.recv_timeout(Duration::from_secs(1)) {
    ///     println!("{} bytes", answer.payload().len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn request_many(
        &self,
        subject: &str,
        payload: impl Into<Bytes>,
    ) -> Result<Subscription, Error> {
        let inbox = format!("_INBOX.{}", unique());
        let message = Message::new(subject, payload).with_reply(&inbox);
        check(&message)?;
        let answers = self.subscribe(&inbox)?;
        self.publish_message(&message)?;
        Ok(answers)
    }

    /// Returns JetStream of the connection's account.
    #[must_use]
    pub fn jetstream(&self) -> JetStream {
        JetStream::new(self.clone(), None)
    }

    /// Returns JetStream of a domain, for instance of a hub behind a leaf node.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) if the name is malformed.
    pub fn jetstream_of(&self, domain: &str) -> Result<JetStream, Error> {
        check_name("domain", domain)?;
        Ok(JetStream::new(self.clone(), Some(domain)))
    }

    /// Waits until the server has processed everything that this client sent before. The client
    /// does not send again what was being sent when a connection was lost.
    ///
    /// # Errors
    /// Returns [`Disconnected`](crate::ErrorKind::Disconnected) if messages that were published
    /// before this call may have been lost with a connection, once for each handle and loss.
    /// Publish again what was published since the last call. Returns
    /// [`TimedOut`](crate::ErrorKind::TimedOut), [`Closed`](crate::ErrorKind::Closed) and
    /// [`Cancelled`](crate::ErrorKind::Cancelled).
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn flush(&self) -> Result<(), Error> {
        let answer = Request::new(&self.shared, Text::fixed("PING"), self.shared.ping()?).get();
        let (losses, server) = self.shared.losses();
        let is_reported = self.reported.swap(losses, Ordering::Relaxed) == losses;
        answer?;
        if is_reported {
            return Ok(());
        }
        let text = "the connection was lost before the server had received everything that was \
                    published; publish again what was published since the last flush";
        Err(Error::new(ErrorKind::Disconnected, text).at(&server))
    }

    /// Ends the client before its scope ends: sends what was published, and waits until the server
    /// has received it and all tasks of the client have been told to end. After that, calls return
    /// [`Closed`](crate::ErrorKind::Closed), and subscriptions are disconnected. If the client has
    /// ended already, this call returns the same result again.
    ///
    /// # Errors
    /// Returns [`Disconnected`](crate::ErrorKind::Disconnected) if the server may not have received
    /// everything, for instance because there was no connection, or because
    /// [`Options::flush_timeout`] has passed, and [`Cancelled`](crate::ErrorKind::Cancelled). The
    /// client ends in each case.
    ///
    /// # Cancellation
    /// This is a cancellation point. The client ends all the same.
    ///
    /// # Examples
    /// ```no_run
    /// # fn f<'scope>(s: &'scope ecru::Scope<'scope, '_>) -> Result<(), ecru_nats::Error> {
    /// let client = ecru_nats::Client::connect(s, "nats://127.0.0.1:4222")?;
    /// client.publish("flour", "ground")?;
    /// client.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(&self) -> Result<(), Error> {
        self.shared.end();
        if self.shared.wait_for_end()? {
            return Ok(());
        }
        let text = "the client has ended, but the server may not have received everything that was \
                    published";
        Err(Error::new(ErrorKind::Disconnected, text).at(&self.server()))
    }

    /// Returns what the server of the current or last connection says about itself.
    #[must_use]
    pub fn server_info(&self) -> Arc<ServerInfo> {
        Arc::clone(&self.shared.link().info)
    }

    /// Returns the address of the server of the current or last connection, as `host:port`.
    #[must_use]
    pub fn server(&self) -> Arc<str> {
        Arc::clone(&self.shared.link().server)
    }

    /// Returns whether there is a connection at this moment.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.shared.link().phase == Phase::Connected
    }

    /// Returns a receiver of what happens to the connection. The latest 64 events are kept. All
    /// receivers of a client compete for them. They are disconnected after the last event when the
    /// client ends.
    #[must_use]
    pub fn events(&self) -> Receiver<Event> {
        self.shared.events()
    }
}

/// Checks what the user says about where a message goes.
fn check(message: &Message) -> Result<(), Error> {
    check_subject(message.subject())?;
    message.reply().map_or(Ok(()), check_pattern)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = self.shared.link();
        let mut shown = f.debug_struct("Client");
        shown.field("server", &link.server).field("phase", &link.phase).finish_non_exhaustive()
    }
}
