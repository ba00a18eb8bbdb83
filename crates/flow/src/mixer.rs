//! A hub from several channels to one, with switches for each input.

use std::borrow::Borrow;
use std::fmt;

use ecru::Cancelled;
use ecru::channel::{Receiver, Sender};

use crate::mailbox::Mailbox;
use crate::pending::{Event, PendingSends, next_event};

/// The treatment of the other inputs while at least one is soloed.
///
/// # Examples
/// ```
/// use ecru::channel;
/// use ecru_flow::{Mixer, SoloMode};
///
/// ecru::run(|| {
///     let (out, heard) = channel::unbounded();
///     let mixer = Mixer::new(out);
///     let (voice, voices) = channel::unbounded();
///     let (other, others) = channel::unbounded();
///     mixer.add(others.clone());
///     mixer.solo(&voices, true);
///     mixer.solo_mode(SoloMode::Pause);
///     ecru::scope(|s| {
///         s.spawn(|| mixer.run().unwrap());
///         other.send("kept for later").unwrap();
///         voice.send("first").unwrap();
///         assert_eq!(heard.recv(), Ok("first"));
///         mixer.solo(&voices, false);
///         assert_eq!(heard.recv(), Ok("kept for later"));
///         mixer.close();
///     });
/// });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SoloMode {
    /// Their values are received and dropped.
    #[default]
    Mute,
    /// Their values stay in their channels.
    Pause,
}

/// A change of an input's switches. `None` leaves a switch as it is.
///
/// # Examples
/// ```
/// use ecru_flow::Toggle;
///
/// let quiet = Toggle { mute: Some(true), ..Toggle::default() };
/// assert_eq!(quiet.pause, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Toggle {
    /// Whether the values of the input are received and dropped.
    pub mute: Option<bool>,
    /// Whether the values of the input stay in its channel.
    pub pause: Option<bool>,
    /// Whether the input is sent on while inputs that are not soloed are not: see [`SoloMode`]. A
    /// soloed input is neither muted nor paused.
    pub solo: Option<bool>,
}

/// A hub that sends the values of several inputs to one output, with switches for each input.
///
/// Inputs can be added and removed at any time. Each can be muted, paused and soloed. An input
/// whose channel ends is removed. The mixer does not close its output.
///
/// # Examples
/// ```
/// use ecru::channel;
/// use ecru_flow::Mixer;
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
    mailbox: Mailbox<MixerRequest<T>, MixerState<T>>,
}

enum MixerRequest<T> {
    /// The changes of several inputs are one request, so that no value is read between the changes.
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

struct MixerState<T> {
    out: Sender<T>,
    inputs: Vec<Input<T>>,
    solo_mode: SoloMode,
    pending: PendingSends<T>,
    /// Whether an input or a switch has changed since `reading` was computed.
    changed: bool,
    /// The inputs that are read, and for each whether its values are sent on.
    reading: Vec<Receiver<T>>,
    heard: Vec<bool>,
}

impl<T> Mixer<T> {
    /// Creates a mixer without inputs.
    #[must_use]
    pub fn new(out: Sender<T>) -> Mixer<T> {
        let state = MixerState {
            out,
            inputs: Vec::new(),
            solo_mode: SoloMode::default(),
            pending: PendingSends::new(),
            changed: false,
            reading: Vec::new(),
            heard: Vec::new(),
        };
        Mixer { mailbox: Mailbox::new(state) }
    }

    fn post(&self, request: MixerRequest<T>) {
        // After the end no input is read.
        let _ = self.mailbox.post(request);
    }

    /// Adds an input with all its switches off. A channel that is an input already keeps its
    /// switches.
    pub fn add(&self, input: Receiver<T>) {
        self.post(MixerRequest::Toggle(vec![(input, Toggle::default())]));
    }

    /// Removes an input. Its values stay in its channel. If the channel is not an input, nothing
    /// happens.
    pub fn remove(&self, input: impl Borrow<Receiver<T>>) {
        self.post(MixerRequest::Remove(input.borrow().clone()));
    }

    /// Removes all inputs.
    pub fn remove_all(&self) {
        self.post(MixerRequest::RemoveAll);
    }

    /// Changes switches of several inputs at once. No value is read between the changes. A channel
    /// that is not an input is added.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel;
    /// use ecru_flow::{Mixer, Toggle};
    ///
    /// let (out, heard) = channel::unbounded();
    /// let mixer = Mixer::new(out);
    /// let (loud, quiet) = (ecru_flow::from_iter([1]), ecru_flow::from_iter([2]));
    /// mixer.toggle([
    ///     (&loud, Toggle { mute: Some(true), ..Toggle::default() }),
    ///     (&quiet, Toggle::default()),
    /// ]);
    /// std::thread::scope(|s| {
    ///     s.spawn(|| mixer.run());
    ///     assert_eq!(heard.recv(), Ok(2));
    ///     mixer.close();
    /// });
    /// ```
    pub fn toggle<R: Borrow<Receiver<T>>>(&self, changes: impl IntoIterator<Item = (R, Toggle)>) {
        let changes = changes.into_iter().map(|(input, change)| (input.borrow().clone(), change));
        self.post(MixerRequest::Toggle(changes.collect()));
    }

    /// Mutes or unmutes an input. The values of a muted input are received and dropped. A channel
    /// that is not an input is added.
    pub fn mute(&self, input: impl Borrow<Receiver<T>>, mute: bool) {
        self.toggle([(input, Toggle { mute: Some(mute), ..Toggle::default() })]);
    }

    /// Pauses or resumes an input. The values of a paused input stay in its channel. A channel that
    /// is not an input is added.
    pub fn pause(&self, input: impl Borrow<Receiver<T>>, pause: bool) {
        self.toggle([(input, Toggle { pause: Some(pause), ..Toggle::default() })]);
    }

    /// Solos an input, or ends its solo. While inputs are soloed, only they are sent on. A channel
    /// that is not an input is added.
    pub fn solo(&self, input: impl Borrow<Receiver<T>>, solo: bool) {
        self.toggle([(input, Toggle { solo: Some(solo), ..Toggle::default() })]);
    }

    /// Sets the treatment of the other inputs while at least one is soloed.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel;
    /// use ecru_flow::{Mixer, SoloMode};
    ///
    /// let (out, heard) = channel::unbounded();
    /// let mixer = Mixer::new(out);
    /// let (singer, choir) = (ecru_flow::from_iter(["aria"]), ecru_flow::from_iter(["la"]));
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
        self.post(MixerRequest::SoloMode(mode));
    }

    /// Closes the mixer. Closing it again changes nothing.
    ///
    /// A value that has already been received is sent. Then [`run`](Mixer::run) returns.
    pub fn close(&self) {
        self.mailbox.close();
    }

    /// Runs the hub until the mixer or its output is closed. If the output is closed, a value that
    /// is pending for it is dropped. Without inputs, `run` waits for one to be added.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if a wait is cancelled.
    ///
    /// # Panics
    /// Panics if another call of `run` is running.
    ///
    /// # Cancellation
    /// This is a cancellation point. Nothing is lost: the next call continues with the pending
    /// sends.
    #[track_caller]
    pub fn run(&self) -> Result<(), Cancelled>
    where
        T: Send,
    {
        let mut state = self.mailbox.state("Mixer");
        let state = &mut *state;
        let mut closed = false;
        loop {
            if closed && state.pending.is_empty() || state.out.is_closed() {
                self.mailbox.close();
                state.end();
                return Ok(());
            }
            if state.changed {
                // All requests are handled before a value is read.
                self.mailbox.requests.try_iter().for_each(|request| state.handle(request));
                state.arrange();
            }
            let reads = !closed && state.pending.is_empty();
            let inputs = if reads { &state.reading[..] } else { &[] };
            let requests = (!closed).then_some(&self.mailbox.requests);
            match next_event(requests, &mut state.pending, inputs)? {
                Event::Request(request) => state.handle(request),
                Event::Closed => closed = true,
                Event::Input(at, value) => {
                    if state.heard[at] {
                        // If the output is closed, the next round notices.
                        state.pending.send(&state.out, value, 0);
                    }
                }
                Event::InputEnded(at) => state.remove_ended(at),
                Event::Sent(_) | Event::Gone(..) => {}
            }
        }
    }
}

impl<T> MixerState<T> {
    fn handle(&mut self, request: MixerRequest<T>) {
        self.changed = true;
        match request {
            MixerRequest::Toggle(changes) => {
                changes.into_iter().for_each(|(input, change)| self.change(input, change));
            }
            MixerRequest::Remove(old) => {
                self.inputs.retain(|other| !other.receiver.same_channel(&old))
            }
            MixerRequest::RemoveAll => self.inputs.clear(),
            MixerRequest::SoloMode(mode) => self.solo_mode = mode,
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

    /// Decides which inputs are read, and which of them are sent on.
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
            // If this was the last solo, the others are sent on again.
            self.changed |= self.inputs.swap_remove(at).solo;
        }
    }

    fn end(&mut self) {
        self.inputs.clear();
        self.reading.clear();
        self.heard.clear();
        self.pending.withdraw_all();
    }
}

impl<T> fmt::Debug for Mixer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mixer").field("closed", &self.mailbox.is_closed()).finish_non_exhaustive()
    }
}
