//! From several channels to one, with switches.

use std::borrow::Borrow;
use std::fmt;

use super::desk::Desk;
use super::parcels::{Event, Parcels, next_event};
use crate::channel::{Receiver, Sender};
use crate::task::Cancelled;

/// What becomes of inputs that are not soloed while others are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SoloMode {
    /// They are read, and what comes is dropped.
    #[default]
    Mute,
    /// They are not read.
    Pause,
}

/// A change of an input's switches; `None` leaves one as it is.
///
/// # Examples
/// ```
/// use ecru::channel::Toggle;
///
/// let quiet = Toggle { mute: Some(true), ..Toggle::default() };
/// assert_eq!(quiet.pause, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Toggle {
    /// What comes is dropped.
    pub mute: Option<bool>,
    /// Nothing is read: what comes stays in the channel.
    pub pause: Option<bool>,
    /// It is heard, and others are not: see [`SoloMode`]. Whether it is muted or paused does not matter then.
    pub solo: Option<bool>,
}

/// Sends what several channels receive to one. Any number of inputs come and go at any time; each of them can be muted, paused and
/// soloed. An input that ends leaves by itself. The mixer does not close its output.
///
/// # Examples
/// ```
/// use ecru::channel::{self, Mixer};
///
/// ecru::run(|| {
///     let (out, heard) = channel::unbounded();
///     let mixer = Mixer::new(out);
///     let (voice, voices) = channel::unbounded();
///     let (noise, noises) = channel::bounded(0);
///     mixer.add(voices);
///     mixer.mute(&noises, true);
///     ecru::scope(|s| {
///         s.spawn(|| mixer.run().unwrap());
///         noise.send("hum").unwrap();
///         voice.send("hello").unwrap();
///         assert_eq!(heard.recv(), Ok("hello"));
///         mixer.close();
///     });
/// });
/// ```
pub struct Mixer<T> {
    desk: Desk<Message<T>, State<T>>,
}

enum Message<T> {
    /// Several at once: nothing is read while some have been changed and others not.
    Toggle(Vec<(Receiver<T>, Toggle)>),
    Remove(Receiver<T>),
    RemoveAll,
    SoloMode(SoloMode),
}

struct Input<T> {
    receiver: Receiver<T>,
    mute: bool,
    pause: bool,
    solo: bool,
}

struct State<T> {
    out: Sender<T>,
    inputs: Vec<Input<T>>,
    solo_mode: SoloMode,
    parcels: Parcels<T>,
    /// Something has changed since `reading` was made.
    changed: bool,
    /// Those of the inputs that are read, and whether what comes goes out.
    reading: Vec<Receiver<T>>,
    heard: Vec<bool>,
}

impl<T> Mixer<T> {
    /// One without inputs.
    #[must_use]
    pub fn new(out: Sender<T>) -> Mixer<T> {
        let state = State {
            out,
            inputs: Vec::new(),
            solo_mode: SoloMode::default(),
            parcels: Parcels::new(),
            changed: false,
            reading: Vec::new(),
            heard: Vec::new(),
        };
        Mixer { desk: Desk::new(state) }
    }

    fn tell(&self, message: Message<T>) {
        // After the end nobody reads any input.
        let _ = self.desk.tell(message);
    }

    /// Adds an input, with all its switches off. One that is there already stays as it is.
    pub fn add(&self, input: Receiver<T>) {
        self.tell(Message::Toggle(vec![(input, Toggle::default())]));
    }

    /// Takes an input out again. What is in it stays there. One that is not there does not matter.
    pub fn remove(&self, input: impl Borrow<Receiver<T>>) {
        self.tell(Message::Remove(input.borrow().clone()));
    }

    /// Takes all inputs out.
    pub fn remove_all(&self) {
        self.tell(Message::RemoveAll);
    }

    /// Changes switches of several inputs at once: no value is read after some have been changed and before the others are. An input
    /// that is not there is added.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, Mixer, Toggle};
    ///
    /// let (out, heard) = channel::unbounded();
    /// let mixer = Mixer::new(out);
    /// let (loud, quiet) = (channel::from_iter([1]), channel::from_iter([2]));
    /// mixer.toggle([(&loud, Toggle { mute: Some(true), ..Toggle::default() }), (&quiet, Toggle::default())]);
    /// std::thread::scope(|s| {
    ///     s.spawn(|| mixer.run());
    ///     assert_eq!(heard.recv(), Ok(2));
    ///     mixer.close();
    /// });
    /// ```
    pub fn toggle<R: Borrow<Receiver<T>>>(&self, changes: impl IntoIterator<Item = (R, Toggle)>) {
        let changes = changes.into_iter().map(|(input, change)| (input.borrow().clone(), change));
        self.tell(Message::Toggle(changes.collect()));
    }

    /// Drops what comes from an input, or no longer. Adds the input if it is not there.
    pub fn mute(&self, input: impl Borrow<Receiver<T>>, mute: bool) {
        self.toggle([(input, Toggle { mute: Some(mute), ..Toggle::default() })]);
    }

    /// Stops reading an input, or no longer. Adds the input if it is not there.
    pub fn pause(&self, input: impl Borrow<Receiver<T>>, pause: bool) {
        self.toggle([(input, Toggle { pause: Some(pause), ..Toggle::default() })]);
    }

    /// Lets only this input be heard, and others that are soloed; or no longer. Adds the input if it is not there.
    pub fn solo(&self, input: impl Borrow<Receiver<T>>, solo: bool) {
        self.toggle([(input, Toggle { solo: Some(solo), ..Toggle::default() })]);
    }

    /// Says what becomes of the others while inputs are soloed.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, Mixer, SoloMode};
    ///
    /// let (out, heard) = channel::unbounded();
    /// let mixer = Mixer::new(out);
    /// let (singer, choir) = (channel::from_iter(["aria"]), channel::from_iter(["la"]));
    /// mixer.solo_mode(SoloMode::Pause);
    /// mixer.add(choir);
    /// mixer.solo(singer, true);
    /// std::thread::scope(|s| {
    ///     s.spawn(|| mixer.run());
    ///     // The choir waits until the singer has ended.
    ///     assert_eq!((heard.recv(), heard.recv()), (Ok("aria"), Ok("la")));
    ///     mixer.close();
    /// });
    /// ```
    pub fn solo_mode(&self, mode: SoloMode) {
        self.tell(Message::SoloMode(mode));
    }

    /// Ends it: what has been read goes out, and [`run`](Mixer::run) returns. Closing again changes nothing.
    pub fn close(&self) {
        self.desk.close();
    }

    /// Does the work, until the mixer or its output is closed; the value for which the output has no room then is dropped. Without
    /// inputs it waits for some.
    ///
    /// # Errors
    /// [`Cancelled`] when a wait was cancelled.
    ///
    /// # Panics
    /// While another call of `run` is at work.
    ///
    /// # Cancellation
    /// A cancel point. Nothing is lost: a later call goes on with what was on its way.
    #[track_caller]
    pub fn run(&self) -> Result<(), Cancelled> {
        let mut seat = self.desk.sit_down("Mixer");
        let state = &mut *seat;
        let mut closed = false;
        loop {
            if closed && state.parcels.is_empty() || state.out.is_closed() {
                self.desk.close();
                state.end();
                return Ok(());
            }
            if state.changed {
                // Before anything is read, everything that has been asked for.
                self.desk.messages.try_iter().for_each(|message| state.heed(message));
                state.arrange();
            }
            let reads = !closed && state.parcels.is_empty();
            let inputs = if reads { &state.reading[..] } else { &[] };
            let messages = (!closed).then_some(&self.desk.messages);
            match next_event(messages, &mut state.parcels, inputs)? {
                Event::Told(message) => state.heed(message),
                Event::Closed => closed = true,
                Event::Input(at, value) => {
                    if state.heard[at] {
                        // If it has closed, the next round sees that.
                        state.parcels.send(&state.out, value, 0);
                    }
                }
                Event::InputEnded(at) => state.remove_ended(at),
                Event::Delivered(_) | Event::Gone(..) => {}
            }
        }
    }
}

impl<T> State<T> {
    fn heed(&mut self, message: Message<T>) {
        self.changed = true;
        match message {
            Message::Toggle(changes) => {
                changes.into_iter().for_each(|(input, change)| self.change(input, change));
            }
            Message::Remove(old) => self.inputs.retain(|other| !other.receiver.same_channel(&old)),
            Message::RemoveAll => self.inputs.clear(),
            Message::SoloMode(mode) => self.solo_mode = mode,
        }
    }

    fn change(&mut self, receiver: Receiver<T>, change: Toggle) {
        let known = self.inputs.iter().position(|other| other.receiver.same_channel(&receiver));
        let at = known.unwrap_or_else(|| {
            self.inputs.push(Input { receiver, mute: false, pause: false, solo: false });
            self.inputs.len() - 1
        });
        let input = &mut self.inputs[at];
        input.mute = change.mute.unwrap_or(input.mute);
        input.pause = change.pause.unwrap_or(input.pause);
        input.solo = change.solo.unwrap_or(input.solo);
    }

    /// Decides who is read and who is heard.
    fn arrange(&mut self) {
        self.changed = false;
        self.reading.clear();
        self.heard.clear();
        let some_solo = self.inputs.iter().any(|input| input.solo);
        let others_pause = some_solo && self.solo_mode == SoloMode::Pause;
        for input in &self.inputs {
            if input.solo || !(input.pause || others_pause) {
                self.reading.push(input.receiver.clone());
                self.heard.push(input.solo || !(input.mute || some_solo));
            }
        }
    }

    fn remove_ended(&mut self, at: usize) {
        let ended = self.reading.swap_remove(at);
        self.heard.swap_remove(at);
        if let Some(at) = self.inputs.iter().position(|input| input.receiver.same_channel(&ended)) {
            // Where nobody is soloed any more, everybody is heard again.
            self.changed |= self.inputs.swap_remove(at).solo;
        }
    }

    fn end(&mut self) {
        self.inputs.clear();
        self.reading.clear();
        self.heard.clear();
        self.parcels.recall_all();
    }
}

impl<T> fmt::Debug for Mixer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mixer").field("closed", &self.desk.is_closed()).finish_non_exhaustive()
    }
}
