//! From one channel to several, in lockstep.

use std::borrow::Borrow;
use std::fmt;

use super::desk::Desk;
use super::parcels::{Event, Parcels, next_event};
use crate::channel::{Receiver, Sender};
use crate::task::Cancelled;

/// Sends every value of a channel to all its taps at once, and the next one only when *every* tap has accepted this one: a slow tap
/// stalls all. Without taps, values are dropped. A tap whose channel has closed is removed.
///
/// Where a channel has no buffer, read it with `recv` or a select: [`try_recv`](Receiver::try_recv) does not see what waits for it.
///
/// When the source ends, the taps' channels are closed; a tap that comes later is closed at once.
///
/// # Examples
/// ```
/// use ecru::channel::{self, Fanout};
///
/// ecru::run(|| {
///     let fanout = Fanout::new(channel::from_iter(1..=3));
///     let (left, lefts) = channel::bounded(0);
///     let (right, rights) = channel::unbounded();
///     fanout.tap(left);
///     fanout.tap(right);
///     ecru::scope(|s| {
///         s.spawn(|| fanout.run().unwrap());
///         assert_eq!(channel::collect(lefts), Ok(vec![1, 2, 3]));
///         assert_eq!(channel::collect(rights), Ok(vec![1, 2, 3]));
///     });
/// });
/// ```
pub struct Fanout<T> {
    desk: Desk<Message<T>, State<T>>,
}

enum Message<T> {
    Tap(Tap<T>),
    Untap(Sender<T>),
    UntapAll,
}

struct Tap<T> {
    to: Sender<T>,
    stays_open: bool,
}

impl<T> Tap<T> {
    /// There will be no more values.
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

struct State<T> {
    /// None: it has ended.
    source: Option<Receiver<T>>,
    taps: Vec<Tap<T>>,
    parcels: Parcels<T>,
}

impl<T> Fanout<T> {
    /// One without taps, for what `source` receives.
    #[must_use]
    pub fn new(source: Receiver<T>) -> Fanout<T> {
        let state = State { source: Some(source), taps: Vec::new(), parcels: Parcels::new() };
        Fanout { desk: Desk::new(state) }
    }

    fn add(&self, tap: Tap<T>) {
        if let Err(Message::Tap(tap)) = self.desk.tell(Message::Tap(tap)) {
            tap.end();
        }
    }

    /// Adds a tap, from the next value on. When the source ends its channel is [closed](Sender::close), whoever else may have senders
    /// of it. A tap that is there already is not added again.
    pub fn tap(&self, to: Sender<T>) {
        self.add(Tap { to, stays_open: false });
    }

    /// [`tap`](Fanout::tap), whose channel is not closed when the source ends.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, Fanout};
    ///
    /// let fanout = Fanout::new(channel::from_iter([1]));
    /// let (to, heard) = channel::unbounded();
    /// fanout.tap_open(to.clone());
    /// fanout.run().unwrap();
    /// to.send(2).unwrap();
    /// assert_eq!(heard.try_iter().collect::<Vec<_>>(), [1, 2]);
    /// ```
    pub fn tap_open(&self, to: Sender<T>) {
        self.add(Tap { to, stays_open: true });
    }

    /// Removes a tap and leaves its channel open. If it has not accepted a value yet that the others have, it will not get it. One that
    /// is not there does not matter.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, Fanout};
    ///
    /// let fanout = Fanout::new(channel::from_iter([1]));
    /// let (to, heard) = channel::unbounded();
    /// fanout.tap(to.clone());
    /// fanout.untap(&to);
    /// fanout.run().unwrap();
    /// assert!(heard.is_empty() && !heard.is_closed());
    /// ```
    pub fn untap(&self, to: impl Borrow<Sender<T>>) {
        // If it has ended there are no taps.
        let _ = self.desk.tell(Message::Untap(to.borrow().clone()));
    }

    /// [`untap`](Fanout::untap) for all of them.
    pub fn untap_all(&self) {
        let _ = self.desk.tell(Message::UntapAll);
    }

    /// Does the work, until the source has ended and every tap has everything.
    ///
    /// # Errors
    /// [`Cancelled`] when a wait was cancelled.
    ///
    /// # Panics
    /// While another call of `run` is at work; and with a panic of `T`'s `clone`, after which some taps lack a value.
    ///
    /// # Cancellation
    /// A cancel point. Nothing is lost: a later call goes on with what was on its way.
    #[track_caller]
    pub fn run(&self) -> Result<(), Cancelled>
    where
        T: Clone,
    {
        let mut seat = self.desk.sit_down("Fanout");
        let state = &mut *seat;
        while state.source.is_some() || !state.parcels.is_empty() {
            let reads = state.parcels.is_empty();
            let inputs = if reads { state.source.as_slice() } else { &[] };
            match next_event(Some(&self.desk.messages), &mut state.parcels, inputs)? {
                Event::Told(message) => state.heed(message),
                Event::Closed => unreachable!("closed by the end of `run` only"),
                Event::Input(_, value) => state.parcels.send_to_all(&mut state.taps, value, 0),
                Event::InputEnded(_) => state.source = None,
                Event::Delivered(_) => {}
                Event::Gone(gone, _) => state.taps.retain(|other| !other.to.same_channel(&gone)),
            }
        }
        // From here on whoever adds a tap closes it; those that have been added before are closed here.
        self.desk.close();
        self.desk.messages.try_iter().for_each(|message| state.heed(message));
        state.taps.drain(..).for_each(Tap::end);
        Ok(())
    }
}

impl<T> State<T> {
    fn heed(&mut self, message: Message<T>) {
        match message {
            Message::Tap(new) => {
                if !self.taps.iter().any(|other| other.to.same_channel(&new.to)) {
                    self.taps.push(new);
                }
            }
            Message::Untap(old) => {
                self.parcels.recall(&old);
                self.taps.retain(|other| !other.to.same_channel(&old));
            }
            Message::UntapAll => {
                self.parcels.recall_all();
                self.taps.clear();
            }
        }
    }
}

impl<T> fmt::Debug for Fanout<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fanout").field("ended", &self.desk.is_closed()).finish_non_exhaustive()
    }
}
