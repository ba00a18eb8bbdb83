//! The texts of errors, and the values that they return.

use std::error::Error;
use std::io;

use super::Opaque;
use crate::support::{ms, run_on};
use ecru::channel::{
    self, RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};

/// - given: a cancelled task, or no sender left
/// - when: `results()` is called
/// - then: it yields the cancellation once, with its reason, then `None`; without a cancellation it
///   yields only `None`
#[test]
fn channel_20_results_tell_a_cancellation_from_the_end() {
    for workers in [1, 2] {
        run_on(workers, || {
            let (sender, receiver) = channel::unbounded();
            sender.send(1).unwrap();
            ecru::cancel_scope(|scope| {
                let mut results = receiver.results();
                assert_eq!(results.next(), Some(Ok(1)));
                scope.cancel();
                let cancelled = results.next().unwrap().unwrap_err();
                assert_eq!(cancelled.reason(), ecru::CancelReason::Explicit);
                assert_eq!(results.next(), None, "once, then the end: no loop spins");
                assert_eq!(results.next(), None);
                assert_eq!(receiver.iter().next(), None, "iter just ends");
            });
            sender.send(2).unwrap();
            drop(sender);
            assert_eq!(receiver.results().collect::<Vec<_>>(), [Ok(2)]);
        });
    }
}

/// - given: the error of a send
/// - when: `into_inner` is called
/// - then: it returns the value
#[test]
fn channel_24_errors_give_the_value_back() {
    assert_eq!(SendError::Disconnected(1).into_inner(), 1);
    assert_eq!(SendError::Cancelled(2).into_inner(), 2);
    assert_eq!(TrySendError::Full(3).into_inner(), 3);
    assert_eq!(TrySendError::Disconnected(4).into_inner(), 4);
    assert_eq!(SendTimeoutError::Timeout(5).into_inner(), 5);
    assert_eq!(SendTimeoutError::Disconnected(6).into_inner(), 6);
    assert_eq!(SendTimeoutError::Cancelled(7).into_inner(), 7);
}

/// - given: each error
/// - when: `is_full`, `is_timeout`, `is_disconnected`, `is_cancelled` and `is_empty` are called
/// - then: exactly the matching method returns true
#[test]
fn channel_25_errors_say_what_they_are() {
    let gone = SendError::Disconnected(());
    assert!(gone.is_disconnected() && !gone.is_cancelled());
    let stopped = SendError::Cancelled(());
    assert!(stopped.is_cancelled() && !stopped.is_disconnected());
    assert!(TrySendError::Full(()).is_full() && !TrySendError::Full(()).is_disconnected());
    let gone = TrySendError::Disconnected(());
    assert!(gone.is_disconnected() && !gone.is_full());
    type S = SendTimeoutError<()>;
    let answers = |e: S| (e.is_timeout(), e.is_disconnected(), e.is_cancelled());
    assert_eq!(answers(S::Timeout(())), (true, false, false));
    assert_eq!(answers(S::Disconnected(())), (false, true, false));
    assert_eq!(answers(S::Cancelled(())), (false, false, true));
    type R = RecvTimeoutError;
    let answers = |e: R| (e.is_timeout(), e.is_disconnected(), e.is_cancelled());
    assert_eq!(answers(R::Timeout), (true, false, false));
    assert_eq!(answers(R::Disconnected), (false, true, false));
    assert_eq!(answers(R::Cancelled), (false, false, true));
    assert!(RecvError::Disconnected.is_disconnected() && !RecvError::Disconnected.is_cancelled());
    assert!(RecvError::Cancelled.is_cancelled() && !RecvError::Cancelled.is_disconnected());
    assert!(TryRecvError::Empty.is_empty() && !TryRecvError::Empty.is_disconnected());
    assert!(TryRecvError::Disconnected.is_disconnected() && !TryRecvError::Disconnected.is_empty());
}

/// - given: errors that carry a type without `Debug`
/// - when: they are formatted
/// - then: the text is that of crossbeam-channel, without the value
#[test]
fn channel_26_errors_are_shown_without_the_value() {
    fn both(error: impl Error) -> (String, String) {
        (error.to_string(), format!("{error:?}"))
    }
    let pair = |display: &str, debug: &str| (display.to_owned(), debug.to_owned());
    let gone = "sending on a disconnected channel";
    assert_eq!(both(SendError::Disconnected(Opaque)), pair(gone, "Disconnected(..)"));
    let cancelled = both(SendError::Cancelled(Opaque));
    assert!(cancelled.0.contains("cancelled"), "{cancelled:?}");
    assert_eq!(both(TrySendError::Full(Opaque)), pair("sending on a full channel", "Full(..)"));
    assert_eq!(both(TrySendError::Disconnected(Opaque)), pair(gone, "Disconnected(..)"));
    let late = "timed out waiting to send on a channel";
    assert_eq!(both(SendTimeoutError::Timeout(Opaque)), pair(late, "Timeout(..)"));
    assert_eq!(both(SendTimeoutError::Disconnected(Opaque)).0, gone);
    assert!(both(SendTimeoutError::Cancelled(Opaque)).0.contains("cancelled"));
    let over = "receiving on an empty and disconnected channel";
    assert_eq!(both(RecvError::Disconnected), pair(over, "Disconnected"));
    assert!(both(RecvError::Cancelled).0.contains("cancelled"));
    assert_eq!(both(TryRecvError::Empty), pair("receiving on an empty channel", "Empty"));
    assert_eq!(both(TryRecvError::Disconnected), pair(over, "Disconnected"));
    let late = "timed out waiting to receive on a channel";
    assert_eq!(both(RecvTimeoutError::Timeout), pair(late, "Timeout"));
    assert_eq!(both(RecvTimeoutError::Disconnected).0, over);
    assert!(both(RecvTimeoutError::Cancelled).0.contains("cancelled"));
}

/// - given: each error
/// - when: it is copied, compared and converted as in crossbeam-channel
/// - then: a cancelled send or receive converts to the error of a call that would have had to wait
#[test]
fn channel_27_errors_are_values() {
    fn value<E: Copy + Eq + Error + Send + Sync + 'static>() {}
    value::<SendError<u8>>();
    value::<TrySendError<u8>>();
    value::<SendTimeoutError<u8>>();
    value::<RecvError>();
    value::<TryRecvError>();
    value::<RecvTimeoutError>();
    // The conversions are those of crossbeam. A cancelled call is one that would have had to wait.
    assert_eq!(TrySendError::from(SendError::Disconnected(1)), TrySendError::Disconnected(1));
    assert_eq!(TrySendError::from(SendError::Cancelled(1)), TrySendError::Full(1));
    let gone = SendTimeoutError::from(SendError::Disconnected(1));
    assert_eq!(gone, SendTimeoutError::Disconnected(1));
    assert_eq!(TryRecvError::from(RecvError::Disconnected), TryRecvError::Disconnected);
    assert_eq!(RecvTimeoutError::from(RecvError::Cancelled), RecvTimeoutError::Cancelled);
}

/// - given: errors of waits
/// - when: they are converted to `io::Error`
/// - then: `BrokenPipe`, or a cancellation with the current task's reason, which `Cancelled::find`
///   finds
#[test]
fn channel_28_errors_become_io_errors() {
    run_on(1, || {
        let gone = io::Error::from(RecvError::Disconnected);
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
        assert!(ecru::Cancelled::find(&gone).is_none());
        let gone = io::Error::from(SendError::Disconnected(Opaque));
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
        let (sender, receiver) = channel::bounded::<u8>(0);
        let elapsed = ecru::timeout(ms(1), || {
            let error = io::Error::from(receiver.recv().unwrap_err());
            let reason = ecru::Cancelled::find(&error).unwrap().reason();
            assert_eq!(reason, ecru::CancelReason::Deadline);
            let error = io::Error::from(sender.send(1).unwrap_err());
            assert_eq!(error.kind(), io::ErrorKind::Other);
            assert!(ecru::Cancelled::find(&error).is_some());
        });
        assert!(elapsed.is_err());
    });
}
