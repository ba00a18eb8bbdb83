//! A select whose operations are only known at run time.

use std::cell::Cell;
use std::fmt;
use std::ptr;
use std::time::{Duration, Instant};

use super::super::errors::{RecvError, SendError};
use super::super::fast_path::TryRecv;
use super::super::receiver::Receiver;
use super::super::reservation::Reservation;
use super::super::sender::{Sender, send_error};
use super::super::source::{watch_room, watch_values};
use super::super::state::Handed;
use super::arm::{Attempt, register_offer};
use super::errors::{ReadyTimeoutError, SelectTimeoutError, TryReadyError, TrySelectError};
use crate::base::clock;
use crate::base::random::{self, Order};
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::park::Role;
use crate::source::{Arms, Choice, Chosen, Source, Won, at_once, choose};

/// The steps of a select for one operation, independent of the type of the channel's values.
trait Operation: Sync {
    /// Tries the operation, and reserves the space, the receiver or the value that it needs.
    fn attempt(&self, waits: bool) -> Attempt<Token>;
    fn register<'a>(&'a self, arms: &mut Arms<'a>);
    fn finish(&self, won: &Won<'_>) -> Option<Token>;
    /// Returns whether the operation is possible now.
    fn is_ready(&self) -> bool;
    fn register_to_look<'a>(&'a self, arms: &mut Arms<'a>);
    /// Releases what was reserved.
    fn give_back(&self, token: Token);
    fn address(&self) -> *const ();
}

/// The reservation of a selected operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// A value that the channel keeps under this ticket. The flag tells whether it came from the
    /// buffer, where its slot stays reserved.
    Value(usize, bool),
    /// The content of a reservation, as returned by [`Reservation::into_number`].
    Send(usize),
    /// The channel is disconnected. Nothing is reserved.
    Disconnected,
    /// The select was cancelled. Nothing is reserved.
    Cancelled,
}

impl<T: Send> Operation for Receiver<T> {
    fn attempt(&self, waits: bool) -> Attempt<Token> {
        let mut locked = self.channel().lock();
        let buffered = !locked.state.buffer.is_empty();
        if buffered {
            // The value may be put back, so its slot stays reserved until the value has been
            // fetched.
            locked.state.reserved += 1;
        }
        let taken = match locked.try_recv() {
            TryRecv::Empty if locked.has_offer() => {
                if waits {
                    return Attempt::Offer;
                }
                let taken = self.channel().meet(locked);
                locked = self.channel().lock();
                taken
            }
            taken => taken,
        };
        match taken {
            TryRecv::Value(value) => {
                let number = locked.next_number();
                // Tickets made here are odd. Tickets of nodes are even.
                let ticket = number.wrapping_mul(2) | 1;
                locked.state.handed.push(Handed { ticket, value });
                Attempt::Done(Token::Value(ticket, buffered))
            }
            TryRecv::Empty => Attempt::Nothing,
            TryRecv::Disconnected => Attempt::Done(Token::Disconnected),
        }
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.__register(arms);
    }

    fn finish(&self, won: &Won<'_>) -> Option<Token> {
        if !won.is_of(self.channel().list()) || won.role() != Role::Take {
            return None;
        }
        let given = won.node().ticket();
        let mut locked = self.channel().lock();
        // The node's frame may be reused after this, and the next node may have the same address.
        // So the value is kept under a fresh ticket from here on.
        let ticket = locked.next_number().wrapping_mul(2) | 1;
        if let Some(handed) = locked.state.handed.iter_mut().find(|handed| handed.ticket == given) {
            handed.ticket = ticket;
            return Some(Token::Value(ticket, false));
        }
        locked.is_drained().then_some(Token::Disconnected)
    }

    fn is_ready(&self) -> bool {
        let mut locked = self.channel().lock();
        matches!(locked.has_something(None), Ok(true)) || locked.has_offer()
    }

    fn register_to_look<'a>(&'a self, arms: &mut Arms<'a>) {
        watch_values(self.channel(), arms);
    }

    fn give_back(&self, token: Token) {
        if let Token::Value(ticket, buffered) = token {
            self.channel().give_back(ticket, buffered);
        }
    }

    fn address(&self) -> *const () {
        ptr::from_ref(self.channel()).cast()
    }
}

impl<T: Send> Operation for Sender<T> {
    fn attempt(&self, waits: bool) -> Attempt<Token> {
        Attempt::of(
            self.try_reserve_from(waits).map(|reservation| Token::Send(reservation.into_number())),
        )
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        register_offer(self.channel(), arms);
    }

    fn finish(&self, won: &Won<'_>) -> Option<Token> {
        let reservation = super::arm::finish_offer(self, won)?;
        Some(Token::Send(reservation.into_number()))
    }

    fn is_ready(&self) -> bool {
        self.channel().lock().can_reserve()
    }

    fn register_to_look<'a>(&'a self, arms: &mut Arms<'a>) {
        watch_room(self.channel(), arms);
    }

    fn give_back(&self, token: Token) {
        if let Token::Send(number) = token {
            drop(Reservation::from_number(self.channel(), number));
        }
    }

    fn address(&self) -> *const () {
        ptr::from_ref(self.channel()).cast()
    }
}

struct Listed<'a> {
    operation: &'a dyn Operation,
    /// The index that [`Select::send`] or [`Select::recv`] returned.
    index: usize,
    /// The node that the operation registered in this round of a wait, or [`NO_NODE`]. It is atomic
    /// only so that a `Select` can be shared. Only a select writes it, and a select borrows the
    /// `Select` mutably.
    node: AtomicUsize,
}

const NO_NODE: usize = usize::MAX;

impl Listed<'_> {
    fn set_node(&self, node: Option<usize>) {
        self.node.store(node.unwrap_or(NO_NODE), Ordering::Relaxed);
    }
}

impl Clone for Listed<'_> {
    fn clone(&self) -> Self {
        Listed { node: AtomicUsize::new(NO_NODE), ..*self }
    }
}

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
    operations: Vec<Listed<'a>>,
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
        self.operations.push(Listed { operation, index, node: AtomicUsize::new(NO_NODE) });
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
    /// # Errors
    /// Returns [`TrySelectError`] if no operation was possible.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    pub fn try_select(&mut self) -> Result<SelectedOperation<'a>, TrySelectError> {
        let selecting = Selecting { select: self, first: Cell::new(0) };
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
        at_once(&Looking { select: self }).ok_or(TryReadyError)
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
        match self.look(None) {
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
    #[track_caller]
    pub fn ready_timeout(&mut self, timeout: Duration) -> Result<usize, ReadyTimeoutError> {
        self.look(clock::now().checked_add(timeout).or_else(far)).ok_or(ReadyTimeoutError)
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
        self.look(Some(deadline)).ok_or(ReadyTimeoutError)
    }

    #[track_caller]
    fn choose(&mut self, deadline: Option<Instant>) -> Option<SelectedOperation<'a>> {
        let selecting = Selecting { select: self, first: Cell::new(0) };
        let waits = deadline.is_none();
        match choose(&selecting, deadline) {
            Chosen::Ready((at, token)) => Some(self.selected(at, token, waits)),
            Chosen::TimedOut => None,
            Chosen::Cancelled(_) => Some(self.selected(self.any()?, Token::Cancelled, waits)),
        }
    }

    #[track_caller]
    fn look(&mut self, deadline: Option<Instant>) -> Option<usize> {
        match choose(&Looking { select: self }, deadline) {
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

    fn selected(&self, at: usize, token: Token, waits: bool) -> SelectedOperation<'a> {
        let Listed { operation, index, .. } = self.operations[at];
        SelectedOperation { operation, index, token, waits }
    }

    /// Returns the order in which the operations are tried.
    fn order(&self) -> Order {
        let count = self.operations.len();
        if self.biased { Order::ascending(count) } else { Order::random(count) }
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

struct Selecting<'s, 'a> {
    select: &'s Select<'a>,
    /// The operation at which the next registration begins.
    first: Cell<usize>,
}

impl Selecting<'_, '_> {
    fn look(&self, waits: bool) -> Option<(usize, Token)> {
        let operations = &self.select.operations;
        let mut first = None;
        for at in self.select.order() {
            first = first.or(Some(at));
            match operations[at].operation.attempt(waits) {
                Attempt::Done(token) => return Some((at, token)),
                Attempt::Nothing => {}
                // The reason is given at the arms of `select!`, in `list`.
                Attempt::Offer => {
                    first = Some(at);
                    break;
                }
            }
        }
        self.first.set(first.unwrap_or(0));
        None
    }
}

impl Choice for Selecting<'_, '_> {
    type Output = (usize, Token);

    fn attempt(&self) -> Option<(usize, Token)> {
        self.look(true)
    }

    fn poll(&self) -> Option<(usize, Token)> {
        self.look(false)
    }

    fn is_single(&self) -> bool {
        self.select.operations.len() < 2
    }

    fn register<'r>(&'r self, arms: &mut Arms<'r>) {
        let operations = &self.select.operations;
        if !arms.any() {
            // The round may end before every operation has been registered.
            operations.iter().for_each(|listed| listed.set_node(None));
        }
        let start = self.first.get();
        for at in (start..operations.len()).chain(0..start) {
            let before = arms.used();
            operations[at].operation.register(arms);
            operations[at].set_node((arms.used() > before).then_some(before));
            if arms.is_ready() {
                return;
            }
        }
    }

    fn finish(&self, won: &Won<'_>) -> Option<(usize, Token)> {
        let put_in = |listed: &Listed<'_>| listed.node.load(Ordering::Relaxed) == won.index();
        let at = self.select.operations.iter().position(put_in)?;
        Some((at, self.select.operations[at].operation.finish(won)?))
    }
}

struct Looking<'s, 'a> {
    select: &'s Select<'a>,
}

impl Choice for Looking<'_, '_> {
    type Output = usize;

    fn attempt(&self) -> Option<usize> {
        let operations = &self.select.operations;
        let ready = |at: usize| operations[at].operation.is_ready().then(|| operations[at].index);
        self.select.order().find_map(ready)
    }

    fn is_single(&self) -> bool {
        self.select.operations.len() < 2
    }

    fn register<'r>(&'r self, arms: &mut Arms<'r>) {
        self.select.operations.iter().for_each(|listed| listed.operation.register_to_look(arms));
    }

    fn finish(&self, _: &Won<'_>) -> Option<usize> {
        self.attempt()
    }
}

/// An operation that a [`Select`] has selected, and that is possible now with what has been
/// reserved for it.
///
/// If it is dropped without having been done, the reservation is released: a value goes back to the
/// front of its channel, and space or a receiver becomes free again.
pub struct SelectedOperation<'a> {
    operation: &'a dyn Operation,
    index: usize,
    token: Token,
    /// Whether the select had no time limit. Then the send has none either, if its receiver has
    /// left.
    waits: bool,
}

impl SelectedOperation<'_> {
    /// Returns the index of the operation, as returned by [`Select::send`] or [`Select::recv`].
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Performs the selected send.
    ///
    /// On a channel without a buffer, the receiver for which this operation was selected may have
    /// left meanwhile. After [`Select::select`], the send then waits for another receiver. After a
    /// select that does not wait or has a time limit, the send does not wait: the value stays in
    /// the channel for the next receiver.
    ///
    /// # Errors
    /// Returns the errors of [`Sender::send`].
    ///
    /// # Panics
    /// Panics if the sender of another channel is passed, or if the selected operation is a
    /// receive.
    ///
    /// # Cancellation
    /// This is a cancellation point only if the send waits.
    #[track_caller]
    pub fn send<T: Send>(mut self, sender: &Sender<T>, value: T) -> Result<(), SendError<T>> {
        self.check(sender, "`SelectedOperation::send`: this is not the sender that was selected");
        match std::mem::replace(&mut self.token, Token::Cancelled) {
            Token::Send(number) => {
                let reservation = Reservation::from_number(sender.channel(), number);
                let sent = if self.waits {
                    reservation.send(value)
                } else {
                    reservation.send_at_once(value)
                };
                sent.map_err(send_error)
            }
            Token::Cancelled => Err(SendError::Cancelled(value)),
            token => {
                self.token = token;
                panic!(
                    "`SelectedOperation::send`: the selected operation is a receive; call `recv`"
                )
            }
        }
    }

    /// Performs the selected receive.
    ///
    /// # Errors
    /// Returns the errors of [`Receiver::recv`].
    ///
    /// # Panics
    /// Panics if the receiver of another channel is passed, or if the selected operation is a send.
    #[track_caller]
    pub fn recv<T: Send>(mut self, receiver: &Receiver<T>) -> Result<T, RecvError> {
        let wrong = "`SelectedOperation::recv`: this is not the receiver that was selected";
        self.check(receiver, wrong);
        match self.token {
            Token::Value(ticket, buffered) => {
                // In a predicate of this channel this panics, and the drop then puts the value
                // back.
                let mut locked = receiver.channel().lock();
                self.token = Token::Cancelled;
                let value = locked.fetch(ticket).expect("kept until the operation is done");
                if buffered {
                    locked.state.reserved -= 1;
                    locked.settle();
                }
                locked.disconnect_if_drained();
                Ok(value)
            }
            Token::Disconnected => Err(RecvError::Disconnected),
            Token::Cancelled => Err(RecvError::Cancelled),
            Token::Send(_) => {
                panic!("`SelectedOperation::recv`: the selected operation is a send; call `send`")
            }
        }
    }

    #[track_caller]
    fn check(&self, given: &dyn Operation, wrong: &str) {
        assert!(ptr::eq(given.address(), self.operation.address()), "{wrong}");
    }
}

impl Drop for SelectedOperation<'_> {
    fn drop(&mut self) {
        self.operation.give_back(self.token);
    }
}

impl fmt::Debug for SelectedOperation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectedOperation").field("index", &self.index).finish_non_exhaustive()
    }
}

impl fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").field("operations", &self.operations.len()).finish_non_exhaustive()
    }
}
