//! What a task waits for, as a dump shows it.

use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "sim")]
use super::trace::StackTrace;
use super::tree::Label;
use crate::base::clock;
use crate::base::tag::Hold;
use crate::park::{About, HandleWord, Object, Purpose, verb};
use crate::task::{self, TaskId};

/// What a task waits for.
#[derive(Clone, Debug)]
pub struct Wait {
    what: &'static str,
    /// The type of what an item is wanted from.
    source: Option<&'static str>,
    at: Option<&'static Location<'static>>,
    task: Option<Label>,
    fd: Option<i32>,
    fd_name: Option<String>,
    peer: Option<String>,
    #[cfg(feature = "sim")]
    shown_peer: Option<String>,
    /// The calls in which the task waits, in a simulation, if the place is inside this library.
    #[cfg(feature = "sim")]
    calls: Option<StackTrace>,
    object: Option<Arc<Object>>,
    /// The description of the object, with its holders.
    described: Option<String>,
    /// The text about the holders, which is printed last.
    held: String,
    holders: Vec<Holder>,
    scope: Option<(usize, u32)>,
    deadline: Option<Instant>,
    /// The time left until the deadline when the wait was looked at.
    left: Option<Duration>,
    lasted: Option<Duration>,
    /// Tells this wait from all others. `None` if it is not that of a parked task.
    identity: Option<(usize, u32)>,
    /// An earlier dump has seen it.
    is_seen: bool,
    /// What ends it, beside what is waited for.
    pub(super) ending: Ending,
}

/// What may end a wait, beside what is waited for.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending {
    /// Nothing that only tasks can do: a time limit, a request that has been made, the kernel.
    pub(super) by_itself: bool,
    /// A cancellation.
    pub(super) by_cancellation: bool,
    /// The memory that belongs to the waiting task alone.
    pub(super) memory: Option<[Range<usize>; 2]>,
}

/// A task or thread that holds what a task waits for: a lock, a permit, or the right to compute a
/// value.
///
/// # Examples
/// ```
/// use ecru::diag::TaskState;
///
/// ecru::run(|| {
///     let stock = ecru::sync::Mutex::new(12);
///     ecru::scope(|s| {
///         let held = stock.lock();
///         s.builder().name("buyer").spawn(|| *stock.lock() -= 1);
///         while ecru::diag::metrics().waiting.is_empty() {
///             ecru::yield_now().unwrap();
///         }
///         let tree = ecru::RuntimeHandle::current().dump();
///         let buyer = tree.tasks().find(|task| task.name() == Some("buyer")).unwrap();
///         let TaskState::Waiting(wait) = buyer.state() else { panic!("it waits for the lock") };
///         for holder in wait.holders() {
///             println!("{:?} holds the lock since {:?}", holder.task(), holder.at());
///         }
///         drop(held);
///     });
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    task: Option<TaskId>,
    at: Option<&'static Location<'static>>,
}

impl Holder {
    /// Returns the task, or `None` if the holder is a thread.
    #[must_use]
    pub fn task(&self) -> Option<TaskId> {
        self.task
    }

    /// Returns where the object was acquired, if that is known.
    #[must_use]
    pub fn at(&self) -> Option<&'static Location<'static>> {
        self.at
    }
}

impl Wait {
    pub(super) fn new(purpose: Purpose, task: Option<Label>) -> Wait {
        let mut wait = Wait { at: Some(purpose.at), task, ..Wait::of(purpose.what) };
        match purpose.about {
            About::Nothing | About::Task(_) => {}
            About::Fd {
                fd,
                name,
                peer,
                #[cfg(feature = "sim")]
                shown_peer,
            } => {
                #[cfg(feature = "sim")]
                {
                    wait.shown_peer = shown_peer;
                }
                // A file of a simulation has no descriptor.
                wait.fd = (fd >= 0).then_some(fd);
                (wait.fd_name, wait.peer) = (name, peer);
            }
            About::Scope(scope, left) => wait.scope = Some((scope, left)),
            About::Time(deadline) => {
                wait.left = Some(deadline.saturating_duration_since(clock::now()));
                wait.deadline = Some(deadline);
            }
            About::Object(object) => {
                let holder =
                    |hold: &Hold| Holder { task: task::task_of(hold.identity), at: hold.at };
                wait.holders = object.holds.iter().map(holder).collect();
                wait.object = Some(Arc::from(object));
                wait.describe_holders(|id| format!("task {id}"));
            }
        }
        wait
    }

    /// Describes the object and its holders. `describe` describes a task.
    pub(super) fn describe_holders(&mut self, describe: impl Fn(TaskId) -> String) {
        let Some(object) = &self.object else { return };
        self.held = task::describe_holders(object, describe);
        self.described = Some(format!("{}{}", object.text, self.held));
    }

    pub(super) fn of(what: &'static str) -> Wait {
        Wait {
            what,
            source: None,
            at: None,
            task: None,
            fd: None,
            fd_name: None,
            peer: None,
            #[cfg(feature = "sim")]
            shown_peer: None,
            #[cfg(feature = "sim")]
            calls: None,
            object: None,
            described: None,
            held: String::new(),
            holders: Vec::new(),
            scope: None,
            deadline: None,
            left: None,
            lasted: None,
            identity: None,
            is_seen: false,
            ending: Ending::default(),
        }
    }

    pub(super) fn of_source(what: &'static str, source: &'static str) -> Wait {
        Wait { source: Some(source), ..Wait::of(what) }
    }

    /// Does not count the tasks of that scope that the program has not spawned.
    pub(super) fn without(mut self, hidden: Option<(usize, u32)>) -> Wait {
        if let (Some((scope, left)), Some((hidden_in, hidden))) = (&mut self.scope, hidden)
            && *scope == hidden_in
        {
            *left = left.saturating_sub(hidden);
        }
        self
    }

    /// Adds how long the wait has lasted, what tells it from others, and whether an earlier dump has
    /// seen it.
    pub(super) fn with_times(
        self,
        lasted: Duration,
        identity: (usize, u32),
        is_seen: bool,
    ) -> Wait {
        Wait { lasted: Some(lasted), identity: Some(identity), is_seen, ..self }
    }

    /// Adds what may end the wait, beside what is waited for.
    pub(super) fn with_ending(self, ending: Ending) -> Wait {
        Wait { ending, ..self }
    }

    /// Returns what each handle of the object contains, if the object is a channel.
    pub(super) fn handle(&self) -> Option<HandleWord> {
        self.object.as_ref()?.handle
    }

    /// Returns the tasks that must act before the wait can end, as far as they are known, except
    /// those of the scope that is waited for.
    pub(super) fn needs(&self) -> Vec<TaskId> {
        let needs_holders = self.object.as_ref().is_some_and(|object| object.needs_holders);
        let holders = self.holders.iter().filter(|_| needs_holders).filter_map(Holder::task);
        self.task().into_iter().chain(holders).collect()
    }

    /// Returns the scope whose tasks are waited for.
    pub(super) fn scope(&self) -> Option<usize> {
        self.scope.map(|(scope, _)| scope)
    }

    /// Returns whether this is the same wait as one in an earlier dump.
    pub(super) fn is_still(&self, before: &Wait) -> bool {
        self.is_seen && self.identity.is_some() && self.identity == before.identity
    }

    /// Returns a text that is equal for waits of the same kind, whatever their times.
    pub(super) fn kind(&self) -> String {
        let object = self.object.as_ref().map_or("", |object| &object.text);
        let (task, fd) = (self.task().map(TaskId::shown), self.fd);
        format!("{} {:?} {task:?} {fd:?} {object} {:?}", self.what, self.source, self.at())
    }

    /// Adds the calls in which the task waits, if the place of the wait is inside this library.
    #[cfg(feature = "sim")]
    pub(super) fn with_calls(self, calls: Option<&StackTrace>) -> Wait {
        let calls = calls.filter(|_| self.at().is_none()).cloned();
        Wait { calls, ..self }
    }

    /// Returns the verb before the printed wait.
    pub(super) fn verb(&self) -> &'static str {
        verb(self.what)
    }

    /// Returns a phrase for what is waited for. In the printed tree it follows "waits" if it begins
    /// with "to", and otherwise "waits for".
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// Returns the type of the source whose item is waited for, if the wait is that of
    /// [`spawn_when`](crate::Scope::spawn_when).
    #[must_use]
    pub fn source(&self) -> Option<&'static str> {
        self.source
    }

    /// Returns where the wait was called. Returns `None` if that is inside this library, as it is
    /// for IO through the traits of `std`.
    #[must_use]
    pub fn at(&self) -> Option<&'static Location<'static>> {
        let own = file!().strip_suffix("diag/wait.rs").unwrap_or(file!());
        self.at.filter(|at| !at.file().starts_with(own))
    }

    /// Returns the task that is waited for, if the wait is for the end of a task.
    #[must_use]
    pub fn task(&self) -> Option<TaskId> {
        self.task.as_ref().map(|task| task.id)
    }

    /// Returns the descriptor that is waited for, if the wait is for a descriptor.
    #[must_use]
    pub fn fd(&self) -> Option<i32> {
        self.fd
    }

    /// Returns the path of the file, or the own address of the socket, if the wait is for a
    /// descriptor that has one.
    #[must_use]
    pub fn fd_name(&self) -> Option<&str> {
        self.fd_name.as_deref()
    }

    /// Returns the address of the other side, if the wait is for a connected socket.
    #[must_use]
    pub fn peer(&self) -> Option<&str> {
        self.peer.as_deref()
    }

    /// Returns a description of the channel, the lock or other object that is waited for, if the
    /// wait is for one. It names the object's [holders](Wait::holders). The description of a closure
    /// of [`unblock`](crate::unblock) is its type.
    #[must_use]
    pub fn object(&self) -> Option<&str> {
        self.described.as_deref()
    }

    /// Returns the name that the program has given to that object, if any. Channels are named by
    /// [`Named`](crate::channel::Named), and locks by [`Mutex::named`](crate::sync::Mutex::named)
    /// and its counterparts.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, Named};
    ///
    /// let (sender, orders) = channel::unbounded::<u32>().named("orders");
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let reader = s.spawn(|| orders.recv());
    ///         let handle = ecru::RuntimeHandle::current();
    ///         let waits_for_orders = || {
    ///             handle.dump().tasks().any(|task| {
    ///                 task.waits_on().and_then(|wait| wait.object_name()) == Some("orders")
    ///             })
    ///         };
    ///         while !waits_for_orders() {
    ///             ecru::yield_now().unwrap();
    ///         }
    ///         sender.send(7).unwrap();
    ///         assert_eq!(reader.join().unwrap(), Ok(7));
    ///     });
    /// });
    /// ```
    #[must_use]
    pub fn object_name(&self) -> Option<&str> {
        self.object.as_ref()?.name.as_deref()
    }

    /// Returns the holders of that object, as far as they are known: of a mutex, of a readers-writer
    /// lock (also the readers), of permits, and of a value that is being computed.
    ///
    /// The holders of locks and permits are noted in builds with `debug_assertions`, in a simulation,
    /// and in tasks of a runtime with [`inspect`](crate::RuntimeBuilder::inspect), a
    /// [watchdog](crate::RuntimeBuilder::watchdog), a [recorder](crate::RuntimeBuilder::record),
    /// [`dump_on_signal`](crate::RuntimeBuilder::dump_on_signal) or
    /// [`detect_deadlock`](crate::RuntimeBuilder::detect_deadlock), also if the environment sets it.
    /// At most 64 are noted of one object. The task that computes a value is always known.
    #[must_use]
    pub fn holders(&self) -> &[Holder] {
        &self.holders
    }

    /// Returns the numbers of senders and of receivers of the channel that is waited for.
    #[must_use]
    pub fn channel_ends(&self) -> Option<(usize, usize)> {
        self.object.as_ref()?.ends
    }

    /// Returns how many tasks are left of the scope whose end is waited for.
    #[must_use]
    pub fn tasks_left(&self) -> Option<u32> {
        self.scope.map(|(_, left)| left)
    }

    /// Returns when the wait ends, if it is a sleep.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the time between the dump and the deadline.
    pub(super) fn left(&self) -> Option<Duration> {
        self.left
    }

    /// Returns how long the wait has lasted, or `None` if that is not known. It is as long as the
    /// closure has run if the wait is that of [`unblock`](crate::unblock).
    ///
    /// The time is counted from when the task's worker last looked at its timers and inboxes before
    /// the wait. That is usually less than a millisecond earlier than the wait.
    #[must_use]
    pub fn lasted(&self) -> Option<Duration> {
        self.lasted
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        if let Some(source) = self.source {
            write!(f, " from {source}")?;
        }
        if let Some(task) = &self.task {
            write!(f, " task {task}")?;
        }
        if let Some(fd) = self.fd {
            write!(f, " fd {fd}")?;
        }
        #[cfg(feature = "sim")]
        let shown_peer = self.shown_peer.as_ref();
        #[cfg(not(feature = "sim"))]
        let shown_peer: Option<&String> = None;
        match (self.fd, &self.fd_name) {
            (Some(_), Some(name)) => write!(f, " ({name})")?,
            (None, Some(name)) => write!(f, " {name}")?,
            (_, None) => {}
        }
        match (shown_peer, &self.peer) {
            (Some(peer), _) => write!(f, " {peer}")?,
            (None, Some(peer)) if self.fd.is_some() => write!(f, ", peer {peer}")?,
            (None, Some(peer)) => write!(f, " {peer}")?,
            (None, None) => {}
        }
        if let Some(object) = &self.object {
            write!(f, " {}", object.text)?;
        }
        if let Some((_, left)) = self.scope {
            write!(f, " ({left} left)")?;
        }
        if let Some(left) = self.left {
            write!(f, " ({left:.1?} left)")?;
        }
        if let Some(at) = self.at() {
            write!(f, ", at {at}")?;
        }
        #[cfg(feature = "sim")]
        if let Some((_, place)) = self.calls.as_ref().and_then(StackTrace::called_at) {
            write!(f, ", at {place}")?;
        }
        if let Some(lasted) = self.lasted.filter(|lasted| *lasted >= LASTED_MIN) {
            write!(f, ", for {:.1} s", lasted.as_secs_f64())?;
        }
        // The places of the holders come last, so that none is taken for the place of the wait.
        f.write_str(&self.held)
    }
}

/// Waits that have lasted for less are printed without their times.
const LASTED_MIN: Duration = Duration::from_secs(1);
