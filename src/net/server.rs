//! Serving connections: accepting them, limiting how many are served at a time, and shutting down.
//!
//! One task on each worker accepts, and spawns a child for each connection. The child usually stays
//! on that worker. A busy worker does not accept, so connections go to workers that have time. A
//! single accepting task would keep all connections on its own worker, because a child that can be
//! served at once begins before an idle worker could take it.
//!
//! A task that accepts already holds a permit. So while a worker computes, its permit is unused:
//! the number of connections served may be below the limit by the number of such workers.
//!
//! # Shutdown
//! ```text
//!   stop source ─► accepting is cancelled ─► grace ─► connections are cancelled ─► all ended: Ok
//!   listener unusable ─► the same, with its error
//!   `on_panic` or the stop source panics ─► accepting and connections are cancelled
//!                                        ─► all ended: its panic
//!   caller cancelled ─► accepting and connections are cancelled ─► all ended: Err(Cancelled)
//! ```

use super::server_errors::{Refusal, Shortage};
use super::{TcpListener, TcpStream, UnixListener, UnixStream};
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::channel::{self, Sender};
use crate::sched;
use crate::scope::{CancelHandle, Internals, PanicPayload, Scope, cancel_scope, scope};
use crate::source::Source;
use crate::sync::Semaphore;
use crate::task::{self, Cancelled};
use crate::time;
use std::any::Any;
use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The default limit on the connections that a [`Server`] serves at once.
const LIMIT: usize = 1024;

/// A listener that a [`Server`] can accept from. The trait is sealed: only this library's listeners
/// implement it.
///
/// # Examples
/// ```
/// use ecru::net::{Listener, Server, TcpListener};
/// use std::time::Duration;
///
/// /// The settings of all servers of a program, over TCP and over Unix sockets.
/// fn patient<L: Listener>(server: Server<'_, L>) -> Server<'_, L> {
///     server.grace(Duration::from_secs(10))
/// }
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let _server = patient(listener.server());
/// # Ok::<(), std::io::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a listener of ecru",
    label = "`TcpListener` and `UnixListener` of `ecru::net` are",
    note = "a listener of std becomes one of ecru by `ecru::net::TcpListener::try_from(..)`"
)]
pub trait Listener: Sync + sealed::Sealed {
    /// A connection.
    type Stream: Send;
    /// The address of the other end of a connection.
    type Peer: Clone + Send;

    #[doc(hidden)]
    fn __accept(&self) -> io::Result<(Self::Stream, Self::Peer)>;

    #[doc(hidden)]
    fn __shut_down(&self);
}

mod sealed {
    #[expect(unnameable_types, reason = "seals the trait")]
    pub trait Sealed {}
    impl Sealed for super::TcpListener {}
    impl Sealed for super::UnixListener {}
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    type Peer = SocketAddr;

    fn __accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.accept()
    }

    fn __shut_down(&self) {
        // It does not fail for a listener.
        let _ = self.0.shutdown(Shutdown::Read);
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    type Peer = std::os::unix::net::SocketAddr;

    fn __accept(&self) -> io::Result<(UnixStream, Self::Peer)> {
        self.accept()
    }

    fn __shut_down(&self) {
        let _ = self.0.shutdown(Shutdown::Read);
    }
}

type Stop<'l> = Box<dyn FnOnce() -> Result<(), Cancelled> + Send + 'l>;
type OnError<'l, P> = Box<dyn Fn(io::Error, Option<P>) + Send + Sync + 'l>;
type OnPanic<'l, P> = Box<dyn Fn(PanicPayload, P) + Send + Sync + 'l>;

/// A builder that configures how a listener's connections are served. See [`TcpListener::server`].
///
/// # Examples
/// ```
/// use ecru::channel;
/// use ecru::net::{TcpListener, TcpStream};
/// use std::io::{Read, Write};
/// use std::time::Duration;
///
/// let reply = ecru::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr()?;
///     let (stop, stopped) = channel::bounded::<()>(0);
///     ecru::scope(|s| {
///         let server = s.spawn(|| {
///             listener
///                 .server()
///                 .limit(100)
///                 .on_error(|error, peer| eprintln!("{peer:?}: {error}"))
///                 .stop_when(stopped)
///                 .grace(Duration::from_secs(5))
///                 .serve(|mut stream, _| {
///                     let mut question = [0; 4];
///                     stream.read_exact(&mut question)?;
///                     stream.write_all(b"pong")
///                 })
///         });
///         let mut client = TcpStream::connect(address)?;
///         client.write_all(b"ping")?;
///         let mut reply = String::new();
///         client.read_to_string(&mut reply)?;
///         drop(stop); // disconnects the channel, which is an event, too
///         server.join().unwrap()?;
///         std::io::Result::Ok(reply)
///     })
/// })?;
/// assert_eq!(reply, "pong");
/// # std::io::Result::Ok(())
/// ```
#[must_use = "nothing is served before `serve`"]
pub struct Server<'l, L: Listener> {
    listener: &'l L,
    limit: usize,
    grace: Option<Duration>,
    refuses_late: bool,
    stop: Option<Stop<'l>>,
    on_error: Option<OnError<'l, L::Peer>>,
    on_panic: Option<OnPanic<'l, L::Peer>>,
}

impl<'l, L: Listener> Server<'l, L> {
    pub(super) fn new(listener: &'l L) -> Server<'l, L> {
        Server {
            listener,
            limit: LIMIT,
            grace: None,
            refuses_late: false,
            stop: None,
            on_error: None,
            on_panic: None,
        }
    }

    /// Sets how many connections are served at once. Others wait in the listener's queue. The
    /// default is 1,024.
    pub fn limit(self, connections: usize) -> Server<'l, L> {
        Server { limit: connections, ..self }
    }

    /// Passes errors to `handler`. Without a handler, errors are ignored.
    ///
    /// - An error that a connection's function returned is passed with the peer's address, on the
    ///   connection's task.
    /// - An error for which nothing can be accepted at the moment, usually "too many open files",
    ///   is passed without an address.
    /// - If no stack can be mapped for a connection's task, the connection is closed, and an error
    ///   of kind `OutOfMemory` is passed with the peer's address, on a task of the server.
    ///
    /// A connection that was cancelled because the server stops is not reported as an error.
    ///
    /// If `handler` panics, the server goes on. The panic of a call with an address counts as one
    /// of the connection, see [`on_panic`](Server::on_panic). That of a call without an address is
    /// reported by the panic hook alone, and fails a simulation.
    pub fn on_error(
        self,
        handler: impl Fn(io::Error, Option<L::Peer>) + Send + Sync + 'l,
    ) -> Server<'l, L> {
        Server { on_error: Some(Box::new(handler)), ..self }
    }

    /// Passes panics of connections to `handler`, on the connection's task, after the panic hook
    /// has reported them. Without a handler, the panic hook alone reports them. The server goes on
    /// in both cases. In a simulation, a panic for which there is no handler fails the run.
    ///
    /// If `handler` panics, that ends the server: nothing more is accepted, the connections are
    /// cancelled and awaited, and [`serve`](Server::serve) resumes the handler's panic. So a
    /// program that has to end with the first panic resumes it in the handler.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    /// use std::panic;
    ///
    /// let served = panic::catch_unwind(|| {
    ///     ecru::run(|| {
    ///         let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    ///         let address = listener.local_addr().unwrap();
    ///         ecru::scope(|s| {
    ///             s.spawn(move || TcpStream::connect(address).unwrap());
    ///             listener
    ///                 .server()
    ///                 .on_panic(|payload, _| panic::resume_unwind(payload.into_inner()))
    ///                 .serve(|_, _| panic!("the first panic is the last one"))
    ///         })
    ///     })
    /// });
    /// assert!(served.is_err());
    /// ```
    pub fn on_panic(
        self,
        handler: impl Fn(PanicPayload, L::Peer) + Send + Sync + 'l,
    ) -> Server<'l, L> {
        Server { on_panic: Some(Box::new(handler)), ..self }
    }

    /// Stops once the source has an item, whatever the item is. No more connections are accepted,
    /// and `serve` returns when the last connection has ended.
    ///
    /// The listener stays open, so that another server can go on with the clients in its queue. A
    /// program that ends after its server calls [`refuse_late`](Server::refuse_late) as well.
    pub fn stop_when(self, source: impl Source + Send + 'l) -> Server<'l, L> {
        Server { stop: Some(Box::new(move || source.wait().map(drop))), ..self }
    }

    /// Sets how long connections may continue after a stop. Those that are left then are cancelled
    /// and awaited. Without this call there is no limit.
    pub fn grace(self, period: Duration) -> Server<'l, L> {
        Server { grace: Some(period), ..self }
    }

    /// Shuts the listener down when the server stops, also when the caller is cancelled. A client
    /// that connects later is refused at once, and may try another server. Without this call, the
    /// system connects such a client, which waits in the listener's queue while the last connections
    /// end, and is reset when the listener is closed.
    ///
    /// The listener is of no use afterwards. Clones of it and other processes that have inherited it
    /// share this.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel;
    /// use ecru::net::{TcpListener, TcpStream};
    /// use std::io::ErrorKind;
    ///
    /// ecru::run(|| {
    ///     let listener = TcpListener::bind("127.0.0.1:0")?;
    ///     let address = listener.local_addr()?;
    ///     let (stop, stopped) = channel::bounded::<()>(0);
    ///     drop(stop);
    ///     listener.server().stop_when(stopped).refuse_late().serve(|_, _| Ok(()))?;
    ///     let late = TcpStream::connect(address).unwrap_err();
    ///     assert_eq!(late.kind(), ErrorKind::ConnectionRefused);
    ///     std::io::Result::Ok(())
    /// })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn refuse_late(self) -> Server<'l, L> {
        Server { refuses_late: true, ..self }
    }

    /// Accepts connections and calls `f` for each of them on a separate task. Returns when the
    /// server has been stopped and every connection has ended.
    ///
    /// A client that disconnects before it is accepted is skipped. While the process or the system
    /// has too many open files, accepting is retried after pauses that grow up to a fifth of a
    /// second. If no stack can be mapped for a connection's task, that connection is closed and
    /// reported to [`on_error`](Server::on_error), and the server goes on.
    ///
    /// # Errors
    /// - `Cancelled` if the caller was cancelled.
    /// - The error that made the listener unusable, for instance that it was shut down. Before it
    ///   is returned, the server stops as on request.
    /// - `OutOfMemory` if no stack could be mapped for the task that waits for
    ///   [`stop_when`](Server::stop_when).
    /// - `InvalidInput` for a limit of 0.
    ///
    /// # Panics
    /// - Resumes a panic of the handler that [`on_panic`](Server::on_panic) has set, or of the
    ///   source of [`stop_when`](Server::stop_when), either of which ends the server. A panic of a
    ///   connection does not end it, and is not resumed.
    /// - Panics on a thread that runs no tasks.
    ///
    /// # Cancellation
    /// If the caller is cancelled, no more connections are accepted, and the connections in
    /// progress are cancelled as well. A connection that was taken from the queue but whose
    /// function has not begun is closed.
    #[track_caller]
    pub fn serve<F>(self, f: F) -> io::Result<()>
    where
        F: Fn(L::Stream, L::Peer) -> io::Result<()> + Send + Sync,
    {
        if self.limit == 0 {
            let text = "a limit of 0 connections serves nothing; pass at least 1 to `limit(..)`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let Server { listener, limit, grace, refuses_late, stop, on_error, on_panic } = self;
        let at = Location::caller();
        let room = Semaphore::new(limit.min(Semaphore::MAX_PERMITS));
        let (refused, refusals) = channel::unbounded();
        let connections = Connections {
            f,
            on_error,
            on_panic,
            refused,
            accepting: OnceLock::new(),
            panic: Mutex::default(),
            over: Mutex::default(),
        };
        let lacks_stack = AtomicBool::new(false);
        let cancelled = scope(|s| {
            let connections = &connections;
            if connections.on_error.is_some() {
                // If it gets no stack, the handler is called at the end.
                s.spawn_hushed_daemon(|| {
                    refusals.iter().for_each(|peer| connections.report_refusal(peer))
                });
            }
            let end = cancel_scope(|accepting| {
                let accepting = connections.accepting.get_or_init(|| accepting);
                if let Some(stop) = stop {
                    let waits = WaitsForStop { accepting: accepting.clone(), lacks: &lacks_stack };
                    s.spawn_hushed_daemon(move || {
                        // Even if this task alone is cancelled, or does not begin, the server
                        // stops: nothing else would ever stop it.
                        let _waits = waits;
                        if let Err(payload) = catch_unwind(AssertUnwindSafe(stop)) {
                            connections.end_with(payload);
                            s.cancel();
                        }
                    });
                }
                let accept = || accept_all(s, at, listener, &room, connections);
                scope(|acceptors| {
                    for places in 1..sched::workers_here().min(limit) {
                        // If it gets no stack, the other tasks accept.
                        acceptors.spawn_beside(places, accept).task().0.hush();
                    }
                    accept()
                })
            });
            if refuses_late {
                listener.__shut_down();
            }
            if let Some(grace) = grace {
                let connections = CancelsConnections(s);
                s.spawn_hushed_daemon(move || {
                    // Even if this task does not begin, the connections do not go on for longer.
                    let _connections = connections;
                    let _ = time::sleep(grace);
                });
            }
            // If this task is not cancelled, accepting ended by the stop or because the listener is
            // unusable.
            task::is_cancelled().then_some(end)
        });
        refusals.try_iter().for_each(|peer| connections.report_refusal(peer));
        let result = match (connections.over.into_inner(), cancelled) {
            (Ok(Some(error)), _) => Err(error),
            (_, None) if lacks_stack.into_inner() => {
                let text = "no stack could be mapped for the task that waits for `stop_when`; raise the process's limit on memory or mappings";
                Err(io::Error::new(io::ErrorKind::OutOfMemory, text))
            }
            (_, Some(cancelled)) => Err(cancelled.into()),
            (_, None) => Ok(()),
        };
        if let Some(payload) =
            connections.panic.into_inner().unwrap_or_else(PoisonError::into_inner)
        {
            resume_unwind(payload);
        }
        result
    }
}

/// Cancels the accepting tasks when it is dropped, which is when the wait for the stop ends.
struct WaitsForStop<'l> {
    accepting: CancelHandle,
    /// Set if the wait did not begin because its task got no stack.
    lacks: &'l AtomicBool,
}

impl Drop for WaitsForStop<'_> {
    fn drop(&mut self) {
        // The same distinction as for an `Arrival`.
        if task::current_header().is_none() {
            self.lacks.store(true, Ordering::Relaxed);
        }
        self.accepting.cancel();
    }
}

/// Cancels the connections when it is dropped.
struct CancelsConnections<'scope, 'env>(&'scope Scope<'scope, 'env>);

impl Drop for CancelsConnections<'_, '_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Accepts until it is cancelled or the listener is unusable. In the second case the other
/// accepting tasks are ended as well. The tasks of connections are said to be spawned at `at`.
fn accept_all<'scope, L: Listener, F>(
    s: &'scope Scope<'scope, '_>,
    at: &'static Location<'static>,
    listener: &L,
    room: &Semaphore,
    connections: &'scope Connections<'_, L, F>,
) -> Cancelled
where
    F: Fn(L::Stream, L::Peer) -> io::Result<()> + Send + Sync,
{
    let mut shortage = Shortage::default();
    loop {
        let permit = match room.acquire() {
            Ok(permit) => permit,
            Err(cancelled) => return cancelled,
        };
        match listener.__accept() {
            Ok((stream, peer)) => {
                shortage = Shortage::default();
                let refused = connections.on_error.is_some().then_some(&connections.refused);
                let arrival = Arrival { peer: Some(peer), refused };
                let task = s.builder().__spawned_at(at).spawn(move || {
                    if connections.serve(stream, arrival.begin()).is_break() {
                        s.cancel();
                    }
                    drop(permit);
                });
                // It fails only if it gets no stack, which the arrival then reports.
                task.task().0.hush();
            }
            Err(error) => match Refusal::of(&error) {
                Refusal::OfOneConnection => {}
                Refusal::ForNow => {
                    drop(permit);
                    connections.report_shortage(error);
                    if let Err(cancelled) = time::sleep(shortage.next_pause()) {
                        return cancelled;
                    }
                }
                // The first wait of the next round reports a cancellation. The permit is released
                // first, because another task may be waiting for it.
                Refusal::ForGood => {
                    drop(permit);
                    if Cancelled::find(&error).is_none() {
                        connections.is_over(error);
                    }
                }
            },
        }
    }
}

/// The address of a connection that was accepted and whose function has not begun.
struct Arrival<'scope, P> {
    peer: Option<P>,
    /// `None` if there is no handler.
    refused: Option<&'scope Sender<P>>,
}

impl<P> Arrival<'_, P> {
    fn begin(mut self) -> P {
        self.peer.take().expect("it begins once")
    }
}

impl<P> Drop for Arrival<'_, P> {
    fn drop(&mut self) {
        // A task that was cancelled before it began drops its closure itself. That of a task
        // without a stack is dropped by the scheduler, where no handler may run.
        if let (Some(peer), Some(refused)) = (self.peer.take(), self.refused)
            && task::current_header().is_none()
        {
            let _ = refused.try_send(peer);
        }
    }
}

/// The state that all connections share.
struct Connections<'l, L: Listener, F> {
    f: F,
    on_error: Option<OnError<'l, L::Peer>>,
    on_panic: Option<OnPanic<'l, L::Peer>>,
    /// Takes the peers of connections for which there was no stack.
    refused: Sender<L::Peer>,
    /// Ends accepting. Set before anything is accepted.
    accepting: OnceLock<CancelHandle>,
    /// The first panic of `on_panic`'s handler or of the source that stops the server.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// The error that made the listener unusable.
    over: Mutex<Option<io::Error>>,
}

impl<L: Listener, F> Connections<'_, L, F>
where
    F: Fn(L::Stream, L::Peer) -> io::Result<()>,
{
    /// Serves a connection. Returns `Break` if the handler of its panic has panicked. No more is
    /// accepted then, and the caller cancels the other connections.
    fn serve(&self, stream: L::Stream, peer: L::Peer) -> ControlFlow<()> {
        let whose = peer.clone();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let Err(error) = (self.f)(stream, peer) else { return };
            if !(task::is_cancelled() && Cancelled::find(&error).is_some()) {
                self.handle(error, Some(whose.clone()));
            }
        }));
        let Err(payload) = outcome else { return ControlFlow::Continue(()) };
        let Some(handler) = &self.on_panic else {
            // The panic hook has reported it.
            task::lose(payload);
            return ControlFlow::Continue(());
        };
        let handled = catch_unwind(AssertUnwindSafe(|| handler(PanicPayload::new(payload), whose)));
        let Err(payload) = handled else { return ControlFlow::Continue(()) };
        self.end_with(payload);
        ControlFlow::Break(())
    }

    /// Ends accepting. Stores the payload until the end if it is the first.
    fn end_with(&self, payload: Box<dyn Any + Send>) {
        let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
        let unwanted = if first.is_none() { first.replace(payload) } else { Some(payload) };
        // The payload's drop is user code, so it must not run under the lock.
        drop(first);
        task::drop_quietly(unwanted);
        self.end_accepting();
    }

    fn end_accepting(&self) {
        if let Some(accepting) = self.accepting.get() {
            accepting.cancel();
        }
    }

    /// Reports a connection for whose task there was no stack.
    fn report_refusal(&self, peer: L::Peer) {
        let text = "no stack could be mapped for the connection's task; lower `limit(..)`, or raise the process's limit on memory or mappings";
        let error = io::Error::new(io::ErrorKind::OutOfMemory, text);
        self.report(error, Some(peer));
    }

    /// Reports that no connection could be accepted for a while.
    fn report_shortage(&self, error: io::Error) {
        self.report(error, None);
    }

    /// Passes an error that no connection's function has returned to the handler. If the handler
    /// panics, the panic is not passed to `on_panic`, and the caller goes on accepting.
    fn report(&self, error: io::Error, peer: Option<L::Peer>) {
        let handled = catch_unwind(AssertUnwindSafe(|| self.handle(error, peer)));
        handled.unwrap_or_else(task::lose);
    }

    fn is_over(&self, error: io::Error) {
        self.over.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.end_accepting();
    }

    /// Passes an error to the handler, if there is one.
    fn handle(&self, error: io::Error, peer: Option<L::Peer>) {
        if let Some(handler) = &self.on_error {
            handler(error, peer);
        }
    }
}

impl<L: Listener> fmt::Debug for Server<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("limit", &self.limit)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
