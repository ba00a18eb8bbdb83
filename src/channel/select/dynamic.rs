//! A select whose operations are only known at run time.

use std::fmt;
use std::time::{Duration, Instant};

use super::super::receiver::Receiver;
use super::super::sender::Sender;
use super::choices::{AddedOperation, ReadyChoice, SelectChoice};
use super::errors::{ReadyTimeoutError, SelectTimeoutError, TryReadyError, TrySelectError};
use super::operation::{Operation, SelectToken};
use super::selected::SelectedOperation;
use crate::base::clock;
use crate::base::random;
use crate::source::{Chosen, at_once, choose};

/// A list of sends and receives of which one is done: [`select!`](crate::select) for operations
/// that are only known at run time.
///
/// # Examples
/// ```
/// use ecru::channel::{self, Select};
///
/// let channels: Vec<_> = (0..5).map(|_| channel::unbounded()).collect();
/// channels[3].0.send("three").unwrap();
///
/// let mut select = Select::new();
/// for (_, receiver) in &channels {
///     select.recv(receiver);
/// }
/// let selected = select.select();
/// let index = selected.index();
/// assert_eq!(index, 3);
/// assert_eq!(selected.recv(&channels[index].1), Ok("three"));
/// ```
///
/// As in crossbeam-channel, a `Select` can be cloned, moved to other threads, and shared between
/// threads. Therefore it accepts only channels whose values are [`Send`].
/// [`select!`](crate::select) accepts any channel.
#[derive(Clone)]
pub struct Select<'a> {
    operations: Vec<AddedOperation<'a>>,
    next_index: usize,
    biased: bool,
}

impl<'a> Select<'a> {
    /// Creates a `Select` without operations. If several operations are possible, one of them is
    /// picked at random.
    #[must_use]
    pub fn new() -> Select<'a> {
        Select { operations: Vec::new(), next_index: 0, biased: false }
    }

    /// Creates a `Select` without operations. If several operations are possible, the one that was
    /// added first is picked.
    #[must_use]
    pub fn new_biased() -> Select<'a> {
        Select { biased: true, ..Select::new() }
    }

    /// Adds a send and returns its index. The same channel may be added more than once.
    pub fn send<T: Send>(&mut self, sender: &'a Sender<T>) -> usize {
        self.add(sender)
    }

    /// Adds a receive and returns its index. The same channel may be added more than once.
    pub fn recv<T: Send>(&mut self, receiver: &'a Receiver<T>) -> usize {
        self.add(receiver)
    }

    fn add(&mut self, operation: &'a dyn Operation) -> usize {
        let index = self.next_index;
        self.operations.push(AddedOperation::new(operation, index));
        self.next_index += 1;
        index
    }

    /// Removes an operation. The indices of the others do not change.
    ///
    /// # Panics
    /// Panics if there is no operation with this index.
    #[track_caller]
    pub fn remove(&mut self, index: usize) {
        let Some(at) = self.operations.iter().position(|listed| listed.index == index) else {
            panic!(
                "`Select::remove`: there is no operation with the index {index}; it was never added, or has been removed"
            );
        };
        self.operations.remove(at);
    }

    /// Selects an operation that is possible now. Does not wait for one.
    ///
    /// All operations are looked at as if at one moment: there is an error only if at some moment
    /// during the call none was possible. On a channel without a buffer, a receive is possible if
    /// another select would send; see [`Receiver::try_recv`]. A send to such a channel is not
    /// possible while the only receivers have a [`filter`](crate::Source::filter).
    ///
    /// A loop that repeats this call must contain a wait, see
    /// [Calls that do not wait](crate::channel#calls-that-do-not-wait).
    ///
    /// # Errors
    /// Returns [`TrySelectError`] if no operation was possible.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, Select};
    ///
    /// let (sender, receiver) = channel::unbounded();
    /// let mut select = Select::new();
    /// select.recv(&receiver);
    /// assert!(select.try_select().is_err(), "nothing has been sent");
    /// sender.send(7).unwrap();
    /// let selected = select.try_select().unwrap();
    /// assert_eq!(selected.recv(&receiver), Ok(7));
    /// ```
    pub fn try_select(&mut self) -> Result<SelectedOperation<'a>, TrySelectError> {
        let selecting = SelectChoice::new(&self.operations, self.biased);
        at_once(&selecting).map(|(at, token)| self.selected(at, token, false)).ok_or(TrySelectError)
    }

    /// Waits until an operation is possible, and selects it.
    ///
    /// # Panics
    /// Panics if no operation has been added, because the call would wait forever. Panics inside
    /// [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled select picks one of the operations at random,
    /// which then fails with its own `Cancelled`.
    #[track_caller]
    pub fn select(&mut self) -> SelectedOperation<'a> {
        assert!(
            !self.operations.is_empty(),
            "`Select::select` without operations would wait for ever; add one with `send` or `recv`"
        );
        match self.choose(None) {
            Some(selected) => selected,
            None => unreachable!("there is no deadline"),
        }
    }

    /// Selects an operation like [`select`](Select::select), but waits for at most `timeout`.
    ///
    /// # Errors
    /// Returns [`SelectTimeoutError`] if the time limit passes.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// Behaves like `select`. A cancelled call without operations returns [`SelectTimeoutError`].
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, Select};
    /// use std::time::{Duration, Instant};
    ///
    /// let (sender, receiver) = channel::bounded::<u32>(1);
    /// let mut select = Select::new();
    /// select.recv(&receiver);
    /// assert!(select.select_timeout(Duration::from_millis(1)).is_err());
    /// // A limit that several calls share is a point in time.
    /// assert!(select.select_deadline(Instant::now()).is_err());
    /// select.send(&sender);
    /// let selected = select.select_timeout(Duration::from_secs(60)).unwrap();
    /// assert_eq!(selected.index(), 1);
    /// selected.send(&sender, 7).unwrap();
    /// ```
    #[track_caller]
    pub fn select_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
        self.choose(clock::now().checked_add(timeout).or_else(far)).ok_or(SelectTimeoutError)
    }

    /// Selects an operation like [`select`](Select::select), but waits until `deadline` at the
    /// latest.
    ///
    /// # Errors
    /// Returns [`SelectTimeoutError`] if the deadline passes.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// Behaves like [`select_timeout`](Select::select_timeout).
    #[track_caller]
    pub fn select_deadline(
        &mut self,
        deadline: Instant,
    ) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
        self.choose(Some(deadline)).ok_or(SelectTimeoutError)
    }

    /// Returns the index of an operation that is possible now, without doing it. Never waits.
    ///
    /// Another task or thread may be faster. There is an error only if at some moment during the
    /// call no operation was possible.
    ///
    /// # Errors
    /// Returns [`TryReadyError`] if no operation was possible.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    pub fn try_ready(&mut self) -> Result<usize, TryReadyError> {
        at_once(&ReadyChoice::new(&self.operations, self.biased)).ok_or(TryReadyError)
    }

    /// Waits until an operation is possible, and returns its index without doing it.
    ///
    /// The operation then succeeds without waiting, for instance by `try_send`, unless the channel
    /// has changed meanwhile:
    /// - Another task or thread was faster.
    /// - The peer has left, because its wait was cancelled or its time limit passed.
    /// - The peer is a select, and another of its arms became ready.
    ///
    /// A single peer that waits in `send` or `recv` without a time limit is therefore still there.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, Select};
    ///
    /// let (sender, receiver) = channel::bounded(0);
    /// std::thread::scope(|s| {
    ///     s.spawn(|| assert_eq!(receiver.recv(), Ok(7)));
    ///     let mut select = Select::new();
    ///     select.send(&sender);
    ///     assert_eq!(select.ready(), 0);
    ///     // There is no other sender.
    ///     sender.try_send(7).unwrap();
    /// });
    /// ```
    ///
    /// # Panics
    /// Panics if no operation has been added. Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call returns the index of one of the operations at
    /// random, which then fails with `Cancelled` when it is done.
    #[track_caller]
    pub fn ready(&mut self) -> usize {
        assert!(
            !self.operations.is_empty(),
            "`Select::ready` without operations would wait for ever; add one with `send` or `recv`"
        );
        match self.wait_for_ready(None) {
            Some(index) => index,
            None => unreachable!("there is no deadline"),
        }
    }

    /// Returns the index of a possible operation like [`ready`](Select::ready), but waits for at
    /// most `timeout`.
    ///
    /// # Errors
    /// Returns [`ReadyTimeoutError`] if the time limit passes.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// Behaves like `ready`.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, Select};
    /// use std::time::{Duration, Instant};
    ///
    /// let (sender, receiver) = channel::unbounded();
    /// let mut select = Select::new();
    /// select.recv(&receiver);
    /// assert!(select.try_ready().is_err());
    /// assert!(select.ready_timeout(Duration::from_millis(1)).is_err());
    /// sender.send(7).unwrap();
    /// assert_eq!(select.ready_deadline(Instant::now() + Duration::from_secs(60)), Ok(0));
    /// assert_eq!(receiver.try_recv(), Ok(7));
    /// ```
    #[track_caller]
    pub fn ready_timeout(&mut self, timeout: Duration) -> Result<usize, ReadyTimeoutError> {
        self.wait_for_ready(clock::now().checked_add(timeout).or_else(far)).ok_or(ReadyTimeoutError)
    }

    /// Returns the index of a possible operation like [`ready`](Select::ready), but waits until
    /// `deadline` at the latest.
    ///
    /// # Errors
    /// Returns [`ReadyTimeoutError`] if the deadline passes.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// Behaves like `ready`.
    #[track_caller]
    pub fn ready_deadline(&mut self, deadline: Instant) -> Result<usize, ReadyTimeoutError> {
        self.wait_for_ready(Some(deadline)).ok_or(ReadyTimeoutError)
    }

    #[track_caller]
    fn choose(&mut self, deadline: Option<Instant>) -> Option<SelectedOperation<'a>> {
        let selecting = SelectChoice::new(&self.operations, self.biased);
        let waits = deadline.is_none();
        match choose(&selecting, deadline) {
            Chosen::Ready((at, token)) => Some(self.selected(at, token, waits)),
            Chosen::TimedOut => None,
            Chosen::Cancelled(_) => Some(self.selected(self.any()?, SelectToken::Cancelled, waits)),
        }
    }

    #[track_caller]
    fn wait_for_ready(&mut self, deadline: Option<Instant>) -> Option<usize> {
        match choose(&ReadyChoice::new(&self.operations, self.biased), deadline) {
            Chosen::Ready(index) => Some(index),
            Chosen::TimedOut => None,
            Chosen::Cancelled(_) => Some(self.operations[self.any()?].index),
        }
    }

    fn any(&self) -> Option<usize> {
        match self.operations.len() {
            0 => None,
            _ if self.biased => Some(0),
            count => Some(random::below(count)),
        }
    }

    fn selected(&self, at: usize, token: SelectToken, waits: bool) -> SelectedOperation<'a> {
        let AddedOperation { operation, index, .. } = self.operations[at];
        SelectedOperation::new(operation, index, token, waits)
    }
}

/// Returns a deadline far in the future, for a duration past the end of time.
fn far() -> Option<Instant> {
    clock::now().checked_add(Duration::from_secs(1 << 32))
}

impl Default for Select<'_> {
    fn default() -> Self {
        Select::new()
    }
}

impl fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").field("operations", &self.operations.len()).finish_non_exhaustive()
    }
}
