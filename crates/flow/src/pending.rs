//! Pending sends, and the one wait of all hubs.
//!
//! A *pending send* is a value for a channel that had no room for it. A hub waits for one event at
//! a time: a request, room for one of the pending sends, or a value of an input. All of them are
//! registered in one wait, so none holds up another. Requests come first, then pending sends, then
//! the inputs, whose order is random.

use std::borrow::Borrow;
use std::cell::Cell;
use std::io;
use std::time::Duration;

use ecru::channel::{Receiver, RecvError, Select, SendError, Sender, TrySendError};
use ecru::{Cancelled, Source};

/// Returns a number below `bound`, which is not 0. In a simulation, its seed decides, if the feature
/// `sim` is on.
pub(crate) fn any_below(bound: usize) -> usize {
    #[cfg(feature = "sim")]
    return (ecru::sim::random_u64() % bound as u64) as usize;
    #[cfg(not(feature = "sim"))]
    fastrand::usize(..bound)
}

struct PendingSend<U> {
    to: Sender<U>,
    /// `None` only while it is being sent.
    value: Cell<Option<U>>,
    /// A number, chosen by the hub, for sends that belong together.
    group: u64,
}

/// The values that have not been sent yet.
pub(crate) struct PendingSends<U> {
    sends: Vec<PendingSend<U>>,
}

impl<U> PendingSends<U> {
    pub(crate) const fn new() -> PendingSends<U> {
        PendingSends { sends: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sends.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.sends.len()
    }

    /// Sends a value, or keeps it as a pending send if there is no room. Returns `false` if the
    /// channel is closed.
    pub(crate) fn send(&mut self, to: &Sender<U>, value: U, group: u64) -> bool {
        match to.try_send(value) {
            Ok(()) => true,
            Err(TrySendError::Disconnected(_)) => false,
            Err(TrySendError::Full(value)) => {
                let value = Cell::new(Some(value));
                self.sends.push(PendingSend { to: to.clone(), value, group });
                true
            }
        }
    }

    /// Sends a value to each recipient, and removes recipients whose channels are closed.
    pub(crate) fn send_to_all<R>(&mut self, to: &mut Vec<R>, value: U, group: u64)
    where
        R: Borrow<Sender<U>>,
        U: Clone,
    {
        let mut left = to.len();
        let mut value = Some(value);
        to.retain(|recipient| {
            left -= 1;
            // The last recipient gets the value itself.
            let own = if left == 0 { value.take() } else { value.clone() };
            own.is_none_or(|own| self.send(recipient.borrow(), own, group))
        });
    }

    /// Drops the values that are pending for a channel, and returns their number.
    pub(crate) fn withdraw(&mut self, to: &Sender<U>) -> usize {
        let before = self.sends.len();
        self.sends.retain(|send| !send.to.same_channel(to));
        before - self.sends.len()
    }

    pub(crate) fn withdraw_all(&mut self) {
        self.sends.clear();
    }
}

/// An event that ends the wait of a hub.
pub(crate) enum Event<C, T, U> {
    /// A user of the hub has posted a request.
    Request(C),
    /// The mailbox is closed and empty.
    Closed,
    Input(usize, T),
    InputEnded(usize),
    /// A pending send of the group has been accepted.
    Sent(u64),
    /// A pending send of the group has failed: the channel is closed.
    Gone(Sender<U>, u64),
}

/// Waits for the next event.
#[track_caller]
pub(crate) fn next_event<C: Send, T: Send, U: Send>(
    requests: Option<&Receiver<C>>,
    pending: &mut PendingSends<U>,
    inputs: &[Receiver<T>],
) -> Result<Event<C, T, U>, Cancelled> {
    ecru::checkpoint()?;
    let first_input = if inputs.len() < 2 { 0 } else { any_below(inputs.len()) };
    if let Some(event) = event_at_hand(requests, pending, inputs, first_input) {
        return Ok(event);
    }
    wait_for_event(requests, pending, inputs, first_input)
}

/// Takes an event that needs no wait, in the same order as `wait_for_event`.
fn event_at_hand<C, T, U>(
    requests: Option<&Receiver<C>>,
    pending: &mut PendingSends<U>,
    inputs: &[Receiver<T>],
    first_input: usize,
) -> Option<Event<C, T, U>> {
    if let Some(request) = requests.and_then(Source::try_take) {
        return Some(request.map_or(Event::Closed, Event::Request));
    }
    for at in 0..pending.sends.len() {
        let send = &pending.sends[at];
        match send.to.try_send(send.value.take().expect("there until it is sent")) {
            Ok(()) => return Some(Event::Sent(pending.sends.swap_remove(at).group)),
            Err(TrySendError::Full(value)) => send.value.set(Some(value)),
            Err(TrySendError::Disconnected(_)) => {
                let send = pending.sends.swap_remove(at);
                return Some(Event::Gone(send.to, send.group));
            }
        }
    }
    let (before, after) = inputs.split_at(first_input);
    let numbered = (first_input..).zip(after).chain((0..).zip(before));
    let mut found = numbered.filter_map(|(at, input)| Some((at, input.try_take()?)));
    found.next().map(|(at, value)| value.map_or(Event::InputEnded(at), |v| Event::Input(at, v)))
}

#[track_caller]
fn wait_for_event<C: Send, T: Send, U: Send>(
    requests: Option<&Receiver<C>>,
    pending: &mut PendingSends<U>,
    inputs: &[Receiver<T>],
    first_input: usize,
) -> Result<Event<C, T, U>, Cancelled> {
    let mut select = Select::new_biased();
    if let Some(requests) = requests {
        select.recv(requests);
    }
    for send in &pending.sends {
        select.send(&send.to);
    }
    let (before, after) = inputs.split_at(first_input);
    for input in after.iter().chain(before) {
        select.recv(input);
    }
    // A send that a select with a time limit has picked never waits. If its receiver has left
    // meanwhile, the next receiver gets the value.
    let selected = loop {
        match select.select_timeout(Duration::MAX) {
            Ok(selected) => break selected,
            Err(_) => ecru::checkpoint()?,
        }
    };
    let index = selected.index();
    let sends = usize::from(requests.is_some());
    if let (Some(requests), 0) = (requests, index) {
        return match selected.recv(requests) {
            Ok(request) => Ok(Event::Request(request)),
            Err(RecvError::Disconnected) => Ok(Event::Closed),
            Err(RecvError::Cancelled) => Err(cancelled()),
        };
    }
    if let Some(send) = pending.sends.get(index - sends) {
        let value = send.value.take().expect("there until it is sent");
        return match selected.send(&send.to, value) {
            Ok(()) => Ok(Event::Sent(pending.sends.swap_remove(index - sends).group)),
            Err(SendError::Disconnected(_)) => {
                let send = pending.sends.swap_remove(index - sends);
                Ok(Event::Gone(send.to, send.group))
            }
            Err(SendError::Cancelled(value)) => {
                send.value.set(Some(value));
                Err(cancelled())
            }
        };
    }
    let at = (first_input + index - sends - pending.sends.len()) % inputs.len();
    match selected.recv(&inputs[at]) {
        Ok(value) => Ok(Event::Input(at, value)),
        Err(RecvError::Disconnected) => Ok(Event::InputEnded(at)),
        Err(RecvError::Cancelled) => Err(cancelled()),
    }
}

/// Returns the cancellation of the current task, which a wait has just reported.
fn cancelled() -> Cancelled {
    Cancelled::find(&io::Error::from(RecvError::Cancelled)).expect("made of a cancellation")
}
