//! A client, which is one connection.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use ecru::channel::Receiver;
use ecru::{Cancelled, JoinHandle};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Notification, Row, Statement, ToStatement};

use crate::Error;
use crate::connect::{Canceller, PATIENCE};
use crate::notifications::Notifications;
use crate::statements::Statements;

/// A connection to a PostgreSQL server. Dropping it closes the connection.
///
/// The calls borrow it exclusively, because a cancel request ends whatever the server is working on.
/// Tasks that want to work at the same time take a client each, from a
/// [pool](crate::Connector::pool).
///
/// # Cancellation
/// Every call that talks to the server is a cancellation point: see [the crate](crate#cancellation).
pub struct Client {
    inner: tokio_postgres::Client,
    /// The task without a stack that runs the connection.
    task: JoinHandle<'static, ()>,
    notifications: Arc<Notifications>,
    canceller: Canceller,
    /// The number of transactions and savepoints that are open.
    depth: u32,
    /// Whether a query was left in the middle.
    is_lost: bool,
    statements: Statements,
}

impl Client {
    pub(crate) fn new(
        inner: tokio_postgres::Client,
        task: JoinHandle<'static, ()>,
        notifications: Arc<Notifications>,
        canceller: Canceller,
    ) -> Client {
        let statements = Statements::default();
        Client { inner, task, notifications, canceller, depth: 0, is_lost: false, statements }
    }

    /// Makes a call of [`tokio_postgres::Client`] for which there is no method here.
    ///
    /// # Errors
    /// Returns the call's error, and [`Error::Cancelled`] if it was cancelled.
    ///
    /// # Examples
    /// ```no_run
    /// let version = ecru::run(|| {
    ///     let mut client = ecru_postgres::connect("postgres://me@localhost/shop")?;
    ///     client.call(async |client| client.simple_query("SHOW server_version").await)
    /// })?;
    /// # Ok::<_, ecru_postgres::Error>(())
    /// ```
    pub fn call<T>(
        &mut self,
        f: impl AsyncFnOnce(&mut tokio_postgres::Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        if self.is_lost {
            return Err(Error::Closed);
        }
        let mut future = pin!(f(&mut self.inner));
        let mut begun = false;
        let result = ecru::block_on(poll_fn(|context| {
            begun = true;
            future.as_mut().poll(context)
        }));
        match result {
            Ok(result) => Ok(result?),
            Err(cancelled) if !begun => Err(cancelled.into()),
            Err(cancelled) => match interrupt(&self.canceller, future) {
                Some(Err(error)) if error.code() == Some(&SqlState::QUERY_CANCELED) => {
                    Err(cancelled.into())
                }
                Some(result) => Ok(result?),
                None => {
                    self.is_lost = true;
                    Err(cancelled.into())
                }
            },
        }
    }

    /// Runs a query and returns its rows. The query is text, or a [prepared](Client::prepare_cached)
    /// statement. Text takes two exchanges with the server, and a prepared statement one.
    ///
    /// # Errors
    /// Returns the server's error, and [`Error::Cancelled`] if it was cancelled.
    ///
    /// # Examples
    /// See [the crate](crate).
    pub fn query<Q>(&mut self, query: &Q, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error>
    where
        Q: ?Sized + ToStatement,
    {
        self.call(async |client| client.query(query, params).await)
    }

    /// Runs a query and returns its only row.
    ///
    /// # Errors
    /// Returns the errors of [`query`](Client::query), and an error if there is not exactly one row.
    pub fn query_one<Q>(&mut self, query: &Q, params: &[&(dyn ToSql + Sync)]) -> Result<Row, Error>
    where
        Q: ?Sized + ToStatement,
    {
        self.call(async |client| client.query_one(query, params).await)
    }

    /// Runs a query and returns its row, if there is one.
    ///
    /// # Errors
    /// Returns the errors of [`query`](Client::query), and an error if there are several rows.
    pub fn query_opt<Q>(
        &mut self,
        query: &Q,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error>
    where
        Q: ?Sized + ToStatement,
    {
        self.call(async |client| client.query_opt(query, params).await)
    }

    /// Runs a statement and returns the number of rows that it affected.
    ///
    /// # Errors
    /// Returns the errors of [`query`](Client::query).
    pub fn execute<Q>(&mut self, query: &Q, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error>
    where
        Q: ?Sized + ToStatement,
    {
        self.call(async |client| client.execute(query, params).await)
    }

    /// Runs several statements without parameters, separated by semicolons.
    ///
    /// # Errors
    /// Returns the first error of the server. The statements before it have been carried out.
    pub fn batch_execute(&mut self, statements: &str) -> Result<(), Error> {
        self.call(async |client| client.batch_execute(statements).await)
    }

    /// Prepares a statement, which can then be run many times on this connection.
    ///
    /// # Errors
    /// Returns the errors of [`query`](Client::query).
    pub fn prepare(&mut self, query: &str) -> Result<Statement, Error> {
        self.call(async |client| client.prepare(query).await)
    }

    /// Returns the prepared statement of this text, and prepares it if this client has not done so
    /// before. The 100 statements that were used last are kept, also while the client waits in a
    /// pool.
    ///
    /// A statement fails if a table has been changed since, so that its rows would have other types.
    /// [`forget_statements`](Client::forget_statements) makes the client prepare it again.
    ///
    /// # Errors
    /// Returns the errors of [`query`](Client::query).
    ///
    /// # Examples
    /// ```no_run
    /// ecru::run(|| {
    ///     let pool = ecru_postgres::Connector::new("postgres://me@localhost/shop".parse()?).pool(8);
    ///     for number in 0..100 {
    ///         let mut client = pool.get()?;
    ///         let by_number = client.prepare_cached("SELECT name FROM goods WHERE number = $1")?;
    ///         println!("{:?}", client.query_opt(&by_number, &[&number])?);
    ///     }
    ///     Ok::<_, Box<dyn std::error::Error>>(())
    /// })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn prepare_cached(&mut self, query: &str) -> Result<Statement, Error> {
        if let Some(statement) = self.statements.get(query) {
            return Ok(statement);
        }
        let statement = self.prepare(query)?;
        self.statements.keep(query, statement.clone());
        Ok(statement)
    }

    /// Forgets the statements that [`prepare_cached`](Client::prepare_cached) has kept.
    pub fn forget_statements(&mut self) {
        self.statements.clear();
    }

    /// Runs a function in a transaction. If it returns `Ok`, the transaction is committed. If it
    /// returns an error or panics, the transaction is rolled back. Inside a transaction, this makes a
    /// savepoint instead.
    ///
    /// For another isolation level, begin with `SET TRANSACTION`.
    ///
    /// # Errors
    /// Returns the function's error, and the errors of the server.
    ///
    /// # Cancellation
    /// This is a cancellation point. A commit that is cancelled returns `Ok` if the server has
    /// committed. A rollback ignores the cancellation, for at most five seconds.
    ///
    /// # Examples
    /// See [the crate](crate).
    pub fn transaction<T, E: From<Error>>(
        &mut self,
        f: impl FnOnce(&mut Client) -> Result<T, E>,
    ) -> Result<T, E> {
        let level = self.depth;
        let (begin, commit) = match level {
            0 => (String::from("BEGIN"), String::from("COMMIT")),
            _ => (format!("SAVEPOINT ecru_{level}"), format!("RELEASE SAVEPOINT ecru_{level}")),
        };
        self.batch_execute(&begin)?;
        self.depth += 1;
        let open = Open { client: self, level };
        let value = f(open.client)?;
        open.client.batch_execute(&commit)?;
        open.client.depth = level;
        Ok(value)
    }

    /// Listens to a channel of `NOTIFY`. The receiver is disconnected when the connection ends. Its
    /// notifications are kept until they are received.
    ///
    /// # Errors
    /// Returns the errors of [`query`](Client::query).
    ///
    /// # Examples
    /// ```no_run
    /// ecru::run(|| {
    ///     let mut client = ecru_postgres::connect("postgres://me@localhost/shop")?;
    ///     let orders = client.listen("orders")?;
    ///     while let Ok(order) = orders.recv() {
    ///         println!("order {}", order.payload());
    ///     }
    ///     Ok::<_, ecru_postgres::Error>(())
    /// })?;
    /// # Ok::<_, ecru_postgres::Error>(())
    /// ```
    pub fn listen(&mut self, channel: &str) -> Result<Receiver<Notification>, Error> {
        // It must exist before the first notification.
        let receiver = self.notifications.receiver(channel);
        self.batch_execute(&format!("LISTEN \"{}\"", channel.replace('"', "\"\"")))?;
        Ok(receiver)
    }

    /// Returns whether the connection has ended, or was given up because the server has not ended a
    /// query that was cancelled. Such a client is of no use any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_lost || self.inner.is_closed()
    }

    /// Asks the server to end what it is working on, and reads the rest of it.
    pub(crate) fn interrupt<F: Future>(&mut self, rest: F) -> Option<F::Output> {
        let ended = interrupt(&self.canceller, pin!(rest));
        self.is_lost |= ended.is_none();
        ended
    }
}

/// Asks the server to cancel a query, and waits for the query's end. Returns `None` if the server
/// cannot be asked, or does not end it.
fn interrupt<F: Future>(canceller: &Canceller, mut query: Pin<&mut F>) -> Option<F::Output> {
    ecru::shield_for(PATIENCE, || {
        loop {
            canceller.request().ok()?;
            let mut output = None;
            // The query may have been between two messages, when there was nothing to cancel.
            let again = ecru::timeout(AGAIN, || output = ecru::block_on(query.as_mut()).ok());
            if output.is_some() || again.is_ok() {
                return output;
            }
        }
    })
}

/// How long the server may take to end a query before it is asked again.
const AGAIN: Duration = Duration::from_millis(50);

/// A transaction or savepoint that is rolled back unless it has been committed.
struct Open<'c> {
    client: &'c mut Client,
    level: u32,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.client.depth == self.level {
            return;
        }
        self.client.depth = self.level;
        let rollback = match self.level {
            0 => String::from("ROLLBACK"),
            level => format!("ROLLBACK TO SAVEPOINT ecru_{level}"),
        };
        let ended = ecru::shield_for(PATIENCE, || self.client.batch_execute(&rollback));
        // The server rolls back when the connection ends.
        self.client.is_lost |= ended.is_err();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Otherwise the task ends when `inner` has been dropped, after its farewell to the server.
        if self.is_lost {
            self.task.cancel();
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("is_closed", &self.is_closed()).finish_non_exhaustive()
    }
}

/// Clients go from task to task, and from worker to worker.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Client>();
    is_send::<Cancelled>();
};
