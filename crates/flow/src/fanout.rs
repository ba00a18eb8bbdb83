//! A hub from one channel to several, in lockstep.

use std::borrow::Borrow;
use std::fmt;

use ecru::Cancelled;
use ecru::channel::{Receiver, Sender};

use crate::mailbox::Mailbox;
use crate::pending::{Event, PendingSends, next_event};

/// A hub that sends each value of a channel to all its taps.
///
/// A value is sent only after *every* tap has accepted the previous one, so a slow tap stalls all.
/// Without taps, values are dropped. A tap whose channel is closed is removed.
///
/// When the source ends, the channels of the taps are closed. A tap that is added later is closed
/// at once.
///
/// # Examples
/// ```
/// use ecru::channel;
/// use ecru_flow::Fanout;
///
/// ecru::run(|| {
///     let fanout = Fanout::new(ecru_flow::from_iter(1..=3));
///     let (left, lefts) = channel::bounded(0);
///     let (right, rights) = channel::unbounded();
///     fanout.tap(left);
///     fanout.tap(right);
///     ecru::scope(|s| {
///         s.spawn(|| fanout.run().unwrap());
///         assert_eq!(ecru_flow::collect(lefts), Ok(vec![1, 2, 3]));
///         assert_eq!(ecru_flow::collect(rights), Ok(vec![1, 2, 3]));
///     });
/// });
/// ```
pub struct Fanout<T> {
    mailbox: Mailbox<FanoutRequest<T>, FanoutState<T>>,
}

enum FanoutRequest<T> {
    Tap(Tap<T>),
    Untap(Sender<T>),
    UntapAll,
}

struct Tap<T> {
    to: Sender<T>,
    stays_open: bool,
}

impl<T> Tap<T> {
    /// Ends the tap after the last value.
    fn end(self) {
        if !self.stays_open {
            self.to.close();
        }
    }
}

impl<T> Borrow<Sender<T>> for Tap<T> {
    fn borrow(&self) -> &Sender<T> {
        &self.to
    }
}

struct FanoutState<T> {
    /// `None` after the source has ended.
    source: Option<Receiver<T>>,
    taps: Vec<Tap<T>>,
    pending: PendingSends<T>,
}

impl<T> Fanout<T> {
    /// Creates a fanout of the values of `source`, without taps.
    #[must_use]
    pub fn new(source: Receiver<T>) -> Fanout<T> {
        let state =
            FanoutState { source: Some(source), taps: Vec::new(), pending: PendingSends::new() };
        Fanout { mailbox: Mailbox::new(state) }
    }

    fn add(&self, tap: Tap<T>) {
        if let Err(FanoutRequest::Tap(tap)) = self.mailbox.post(FanoutRequest::Tap(tap)) {
            tap.end();
        }
    }

    /// Adds a tap, which receives all values from the next one on.
    ///
    /// When the source ends, the tap's channel is [closed](Sender::close), even if it has other
    /// senders. A channel that is a tap already is not added again.
    pub fn tap(&self, to: Sender<T>) {
        self.add(Tap { to, stays_open: false });
    }

    /// Adds a tap as [`tap`](Fanout::tap) does, but its channel stays open when the source ends.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel;
    /// use ecru_flow::Fanout;
    ///
    /// let fanout = Fanout::new(ecru_flow::from_iter([1]));
    /// let (to, heard) = channel::unbounded();
    /// fanout.tap_open(to.clone());
    /// fanout.run().unwrap();
    /// to.send(2).unwrap();
    /// assert_eq!(heard.try_iter().collect::<Vec<_>>(), [1, 2]);
    /// ```
    pub fn tap_open(&self, to: Sender<T>) {
        self.add(Tap { to, stays_open: true });
    }

    /// Removes a tap and leaves its channel open. A value that is pending for the tap is dropped.
    /// If the channel is not a tap, nothing happens.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel;
    /// use ecru_flow::Fanout;
    ///
    /// let fanout = Fanout::new(ecru_flow::from_iter([1]));
    /// let (to, heard) = channel::unbounded();
    /// fanout.tap(to.clone());
    /// fanout.untap(&to);
    /// fanout.run().unwrap();
    /// assert!(heard.is_empty() && !heard.is_closed());
    /// ```
    pub fn untap(&self, to: impl Borrow<Sender<T>>) {
        // After the end there are no taps.
        let _ = self.mailbox.post(FanoutRequest::Untap(to.borrow().clone()));
    }

    /// Removes all taps, as [`untap`](Fanout::untap) does.
    pub fn untap_all(&self) {
        let _ = self.mailbox.post(FanoutRequest::UntapAll);
    }

    /// Runs the hub until the source has ended and every tap has accepted every value.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if a wait is cancelled.
    ///
    /// # Panics
    /// - Panics if another call of `run` is running.
    /// - Panics if `T`'s `clone` panics. Some taps then lack a value.
    ///
    /// # Cancellation
    /// This is a cancellation point. Nothing is lost: the next call continues with the pending
    /// sends.
    #[track_caller]
    pub fn run(&self) -> Result<(), Cancelled>
    where
        T: Clone + Send,
    {
        let mut state = self.mailbox.state("Fanout");
        let state = &mut *state;
        while state.source.is_some() || !state.pending.is_empty() {
            let reads = state.pending.is_empty();
            let inputs = if reads { state.source.as_slice() } else { &[] };
            match next_event(Some(&self.mailbox.requests), &mut state.pending, inputs)? {
                Event::Request(request) => state.handle(request),
                Event::Closed => unreachable!("only the end of `run` closes the mailbox"),
                Event::Input(_, value) => state.pending.send_to_all(&mut state.taps, value, 0),
                Event::InputEnded(_) => state.source = None,
                Event::Sent(_) => {}
                Event::Gone(gone, _) => state.taps.retain(|other| !other.to.same_channel(&gone)),
            }
        }
        // From here on, `tap` itself closes the channels that it is given. Those of earlier
        // requests are closed here.
        self.mailbox.close();
        self.mailbox.requests.try_iter().for_each(|request| state.handle(request));
        state.taps.drain(..).for_each(Tap::end);
        Ok(())
    }
}

impl<T> FanoutState<T> {
    fn handle(&mut self, request: FanoutRequest<T>) {
        match request {
            FanoutRequest::Tap(new) => {
                if !self.taps.iter().any(|other| other.to.same_channel(&new.to)) {
                    self.taps.push(new);
                }
            }
            FanoutRequest::Untap(old) => {
                self.pending.withdraw(&old);
                self.taps.retain(|other| !other.to.same_channel(&old));
            }
            FanoutRequest::UntapAll => {
                self.pending.withdraw_all();
                self.taps.clear();
            }
        }
    }
}

impl<T> fmt::Debug for Fanout<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fanout").field("ended", &self.mailbox.is_closed()).finish_non_exhaustive()
    }
}
