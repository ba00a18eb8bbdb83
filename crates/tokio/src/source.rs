//! Streams and tokio's channels as sources.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use ecru::Source;
use ecru::source::WaitList;
use futures_core::Stream;
use tokio::sync::mpsc;

use crate::enter;

/// Makes a source of a stream, so that it can be raced with others. Its items are `Some(item)` for
/// each of the stream's, and `None` again and again after the stream's end.
///
/// `tokio_stream::wrappers` has streams of tokio's other channels and of its intervals.
///
/// # Examples
/// ```
/// use ecru::Source;
/// use futures_util::stream;
///
/// let numbers = ecru_tokio::source(stream::iter([1, 2]));
/// assert_eq!(numbers.wait(), Ok(Some(1)));
/// assert_eq!(numbers.wait(), Ok(Some(2)));
/// assert_eq!(numbers.wait(), Ok(None));
/// ```
pub fn source<S: Stream>(stream: S) -> StreamSource<S> {
    let calls = Arc::new(Calls { called: AtomicBool::new(false), waiters: WaitList::new() });
    let waker = Waker::from(Arc::clone(&calls));
    StreamSource { state: Mutex::new(State::Here(Box::pin(stream))), calls, waker }
}

/// Makes a source of the receiver of a channel of tokio's.
///
/// # Examples
/// ```
/// use ecru::source::{Either, either};
/// use ecru::{Source, channel};
///
/// ecru::run(|| {
///     let (theirs, receiver) = tokio::sync::mpsc::channel(8);
///     let (ours, own) = channel::unbounded();
///     let theirs_or_own = either(ecru_tokio::receiver(receiver), &own);
///     theirs.try_send(1).unwrap();
///     assert!(matches!(theirs_or_own.wait(), Ok(Either::Left(Some(1)))));
///     ours.send(2).unwrap();
///     assert!(matches!(theirs_or_own.wait(), Ok(Either::Right(Ok(2)))));
/// });
/// ```
pub fn receiver<T>(mut receiver: mpsc::Receiver<T>) -> StreamSource<impl Stream<Item = T>> {
    source(FromPoll(move |context: &mut Context<'_>| receiver.poll_recv(context)))
}

/// Makes a source of the receiver of an unbounded channel of tokio's: see [`receiver`].
///
/// # Examples
/// ```
/// use ecru::Source;
///
/// ecru::run(|| {
///     let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
///     let numbers = ecru_tokio::unbounded_receiver(receiver);
///     sender.send(7).unwrap();
///     assert_eq!(numbers.wait(), Ok(Some(7)));
///     drop(sender);
///     assert_eq!(numbers.wait(), Ok(None));
/// });
/// ```
pub fn unbounded_receiver<T>(
    mut receiver: mpsc::UnboundedReceiver<T>,
) -> StreamSource<impl Stream<Item = T>> {
    source(FromPoll(move |context: &mut Context<'_>| receiver.poll_recv(context)))
}

struct FromPoll<P>(P);

impl<T, P: FnMut(&mut Context<'_>) -> Poll<Option<T>> + Unpin> Stream for FromPoll<P> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        (self.0)(context)
    }
}

/// A source of a stream's items: see [`source`](source()).
pub struct StreamSource<S> {
    state: Mutex<State<S>>,
    calls: Arc<Calls>,
    waker: Waker,
}

enum State<S> {
    Here(Pin<Box<S>>),
    /// Another caller is polling the stream, without the lock, because that runs user code.
    Lent {
        /// Whether a caller has looked meanwhile.
        missed: bool,
    },
    /// The stream has ended, or has panicked.
    Ended,
}

/// The target of the stream's wakers. It is reference-counted and may outlive the source.
struct Calls {
    /// Whether the waker was called since the last poll began.
    called: AtomicBool,
    waiters: WaitList,
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.called.store(true, Ordering::SeqCst);
        self.waiters.notify_all();
    }
}

impl<S> StreamSource<S> {
    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts the stream back after a poll, also if the poll panics. Then the stream has ended.
struct Lent<'s, S> {
    source: &'s StreamSource<S>,
    stream: Option<Pin<Box<S>>>,
    is_pending: bool,
}

impl<S> Drop for Lent<'_, S> {
    fn drop(&mut self) {
        let after = self.stream.take().map_or(State::Ended, State::Here);
        let before = mem::replace(&mut *self.source.state(), after);
        let missed = matches!(before, State::Lent { missed: true });
        let calls = &self.source.calls;
        // A stream that was ready may have another item, and calls no waker for it. If it was
        // pending, the waiters are notified by its waker, but for one that came after that call and
        // did not find the stream.
        if !self.is_pending || (missed && calls.called.load(Ordering::SeqCst)) {
            calls.waiters.notify_all();
        }
    }
}

impl<S: Stream> Source for StreamSource<S> {
    type Item = Option<S::Item>;

    fn try_take(&self) -> Option<Option<S::Item>> {
        let mut stream = {
            let mut state = self.state();
            match mem::replace(&mut *state, State::Lent { missed: true }) {
                State::Here(stream) => {
                    *state = State::Lent { missed: false };
                    stream
                }
                State::Lent { .. } => return None,
                State::Ended => {
                    *state = State::Ended;
                    return Some(None);
                }
            }
        };
        // If the poll panics, the stream is dropped, and has ended.
        let mut lent = Lent { source: self, stream: None, is_pending: false };
        self.calls.called.store(false, Ordering::SeqCst);
        let mut context = Context::from_waker(&self.waker);
        match enter(|| stream.as_mut().poll_next(&mut context)) {
            Poll::Pending => {
                lent.is_pending = true;
                lent.stream = Some(stream);
                None
            }
            Poll::Ready(Some(item)) => {
                lent.stream = Some(stream);
                Some(Some(item))
            }
            Poll::Ready(None) => {
                enter(|| drop(stream));
                Some(None)
            }
        }
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.calls.waiters);
    }
}

impl<S> fmt::Debug for StreamSource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSource").finish_non_exhaustive()
    }
}
