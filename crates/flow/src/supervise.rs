//! Tasks that are started again when they fail.

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use std::{error, fmt, io};

use ecru::source::{self, Source};
use ecru::{Cancelled, JoinError, JoinHandle, PanicPayload};

/// A set of children that are started again when they fail, which [`supervise`] returns.
#[must_use = "nothing runs before `run`"]
pub struct Supervisor<'a, E> {
    max_restarts: usize,
    period: Duration,
    children: Vec<Child<'a, E>>,
}

struct Child<'a, E> {
    name: String,
    body: Box<dyn Fn() -> Result<(), E> + Send + Sync + 'a>,
}

/// Creates a supervisor of tasks, its *children*. Add them with [`child`](Supervisor::child), then
/// call [`run`](Supervisor::run).
///
/// A child that returns an error or panics is started again at once, and the others are left alone.
/// If there are more than `max_restarts` restarts within `period`, the failure is beyond what a
/// restart mends. The supervisor then cancels the other children, and `run` returns the last
/// failure, which *escalates* it to the caller. A caller that is itself a child of a supervisor
/// passes it on by returning it.
///
/// A child that returns `Ok` has ended and is not started again.
///
/// # Actors
/// An actor is a task that owns a state and reads requests from its *mailbox*, a channel. To outlive
/// a restart, the mailbox belongs to the code around the supervisor, and the child borrows it. So
/// senders notice nothing of a restart, and the next start reads on where the last one stopped. The
/// state is new. The request that has failed is lost, and a sender for its reply is dropped, which
/// the requester sees as a disconnection. When the supervisor escalates and the mailbox is dropped,
/// senders see that.
///
/// ```
/// use ecru::channel::{self, Receiver, Sender};
/// use ecru_flow::supervise;
/// use std::time::Duration;
///
/// enum Request {
///     Divide(u32, Sender<u32>),
///     CountDivisions(Sender<u32>),
/// }
///
/// fn divider(mailbox: &Receiver<Request>) -> Result<(), String> {
///     let mut divisions = 0;
///     for request in mailbox {
///         match request {
///             Request::Divide(by, reply) => {
///                 let part = 100_u32.checked_div(by).ok_or("a division by zero")?;
///                 divisions += 1;
///                 let _ = reply.send(part);
///             }
///             Request::CountDivisions(reply) => _ = reply.send(divisions),
///         }
///     }
///     Ok(())
/// }
///
/// ecru::run(|| {
///     let (address, mailbox) = channel::bounded(8);
///     ecru::scope(|s| {
///         s.spawn(|| {
///             let actor = supervise(5, Duration::from_secs(60)).child("divider", || divider(&mailbox));
///             actor.run().unwrap();
///         });
///         let [(bad, refused), (good, part), (reply, count)] = [(); 3].map(|()| channel::oneshot());
///         address.send(Request::Divide(0, bad)).unwrap();
///         address.send(Request::Divide(7, good)).unwrap();
///         address.send(Request::CountDivisions(reply)).unwrap();
///         assert!(refused.recv().is_err());
///         assert_eq!((part.recv(), count.recv()), (Ok(14), Ok(1)));
///         drop(address); // the actor ends
///     });
/// });
/// ```
///
/// # Examples
/// ```
/// use ecru::channel;
/// use std::sync::Mutex;
/// use std::time::Duration;
///
/// ecru::run(|| {
///     let (sender, words) = channel::unbounded();
///     ecru_flow::send_all(sender, ["one", "2", "three"]).unwrap();
///     let seen = Mutex::new(Vec::new());
///     ecru_flow::supervise(3, Duration::from_secs(60))
///         .child("reader", || {
///             // Each start has its own state. What a failed one has received is lost.
///             for word in &words {
///                 if word.parse::<u32>().is_ok() {
///                     return Err(format!("{word} is not a word"));
///                 }
///                 seen.lock().unwrap().push(word);
///             }
///             Ok(())
///         })
///         .run()
///         .unwrap();
///     assert_eq!(seen.into_inner().unwrap(), ["one", "three"]);
/// });
/// ```
pub fn supervise<'a, E>(max_restarts: usize, period: Duration) -> Supervisor<'a, E> {
    Supervisor { max_restarts, period, children: Vec::new() }
}

impl<'a, E: Send> Supervisor<'a, E> {
    /// Adds a child. Its name appears in the error of [`run`](Supervisor::run), and as the name of
    /// its task.
    ///
    /// `body` is called again for each restart, so it should make its state itself.
    pub fn child<F>(mut self, name: impl Into<String>, body: F) -> Supervisor<'a, E>
    where
        F: Fn() -> Result<(), E> + Send + Sync + 'a,
    {
        self.children.push(Child { name: name.into(), body: Box::new(body) });
        self
    }

    /// Runs the children, each in a task of its own, until all have ended.
    ///
    /// # Errors
    /// Returns [`SuperviseError::Escalated`] if there were too many restarts, and
    /// [`SuperviseError::Cancelled`] if the caller is cancelled. All children have ended by then.
    ///
    /// # Panics
    /// Panics outside a run, inside [`no_suspend`](ecru::no_suspend), and if a child panics after the
    /// supervisor or its caller has been cancelled.
    ///
    /// # Cancellation
    /// This is a cancellation point. The children are cancelled and awaited, and not started again.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::{Failure, SuperviseError, supervise};
    /// use std::time::Duration;
    ///
    /// ecru::run(|| {
    ///     let supervisor = supervise(2, Duration::from_secs(60))
    ///         .child("reader", || Err("the disk is full"))
    ///         .child("server", || Ok(ecru::sleep(Duration::from_secs(3600)).unwrap_or_default()));
    ///     // Two restarts do not help. The other child is cancelled.
    ///     let error = supervisor.run().unwrap_err();
    ///     let SuperviseError::Escalated { child, failure } = error else { panic!("{error}") };
    ///     assert_eq!(child, "reader");
    ///     assert!(matches!(failure, Failure::Failed("the disk is full")));
    /// });
    /// ```
    #[track_caller]
    pub fn run(self) -> Result<(), SuperviseError<E>> {
        let Supervisor { max_restarts, period, children } = self;
        let mut recent = Restarts { times: VecDeque::new(), max: max_restarts, period };
        ecru::scope(|s| {
            let start = |number: usize| {
                let child: &Child<'_, E> = &children[number];
                (number, s.builder().name(&child.name).spawn(|| (child.body)()))
            };
            let mut running: Vec<(usize, JoinHandle<'_, Result<(), E>>)> =
                (0..children.len()).map(start).collect();
            while !running.is_empty() {
                let handles = running.iter().map(|(_, handle)| handle);
                let (at, outcome) = source::race_indexed(handles).wait()?;
                let (number, _) = running.swap_remove(at);
                let failure = match outcome {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => Failure::Failed(error),
                    Err(JoinError::Panicked(payload)) => Failure::Panicked(payload),
                    // It was cancelled before it began. That happens only to a cancelled caller.
                    Err(_) => {
                        ecru::checkpoint()?;
                        running.push(start(number));
                        continue;
                    }
                };
                ecru::checkpoint()?;
                if !recent.permit() {
                    s.cancel();
                    let child = children[number].name.clone();
                    return Err(SuperviseError::Escalated { child, failure });
                }
                running.push(start(number));
            }
            Ok(())
        })
    }
}

/// The restarts of the last period.
struct Restarts {
    times: VecDeque<Instant>,
    max: usize,
    period: Duration,
}

impl Restarts {
    /// Returns whether another restart is within the limit, and notes it if so.
    fn permit(&mut self) -> bool {
        let now = ecru::time::now();
        let is_over = |time: &Instant| now.duration_since(*time) >= self.period;
        self.times.drain(..self.times.partition_point(is_over));
        if self.times.len() >= self.max {
            return false;
        }
        self.times.push_back(now);
        true
    }
}

impl<E> fmt::Debug for Supervisor<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.children.iter().map(|child| &child.name);
        f.debug_list().entries(names).finish()
    }
}

/// The failure of a supervised child.
///
/// # Examples
/// ```
/// use ecru_flow::{Failure, SuperviseError, supervise};
/// use std::time::Duration;
///
/// fn is_a_bug(error: &SuperviseError<std::io::Error>) -> bool {
///     matches!(error, SuperviseError::Escalated { failure: Failure::Panicked(_), .. })
/// }
///
/// ecru::run(|| {
///     let supervisor = supervise(0, Duration::from_secs(1))
///         .child("file", || std::fs::read_to_string("/no/such/file").map(drop));
///     assert!(!is_a_bug(&supervisor.run().unwrap_err()));
/// });
/// ```
#[derive(Debug)]
pub enum Failure<E> {
    /// It returned this error.
    Failed(E),
    /// It panicked.
    Panicked(PanicPayload),
}

/// The error of [`Supervisor::run`].
#[derive(Debug)]
#[non_exhaustive]
pub enum SuperviseError<E> {
    /// A child failed, and there were too many restarts already.
    Escalated {
        /// The name of the child.
        child: String,
        /// Its last failure.
        failure: Failure<E>,
    },
    /// The caller was cancelled.
    Cancelled(Cancelled),
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Failed(error) => error.fmt(f),
            Failure::Panicked(payload) => match payload.message() {
                Some(message) => write!(f, "it panicked: {message}"),
                None => f.write_str("it panicked"),
            },
        }
    }
}

impl<E: fmt::Display> fmt::Display for SuperviseError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SuperviseError::Escalated { child, failure } => {
                write!(f, "`{child}` failed after too many restarts: {failure}")
            }
            SuperviseError::Cancelled(cancelled) => cancelled.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> error::Error for SuperviseError<E> {}

impl<E> From<Cancelled> for SuperviseError<E> {
    fn from(cancelled: Cancelled) -> SuperviseError<E> {
        SuperviseError::Cancelled(cancelled)
    }
}

/// A cancellation is kept: [`Cancelled::find`] finds it in the error.
impl<E: fmt::Debug + fmt::Display + Send + Sync + 'static> From<SuperviseError<E>> for io::Error {
    fn from(error: SuperviseError<E>) -> io::Error {
        match error {
            SuperviseError::Cancelled(cancelled) => cancelled.into(),
            escalated => io::Error::other(escalated),
        }
    }
}
