//! `pipe`, `partition`, `send_all` and `from_iter`.

use crate::common::{begin, settle, until};
use crate::simulated::each_run;
use ecru::channel::{self, RecvError, SendError};
use ecru_flow as flow;

/// - given: a channel with values
/// - when: `pipe(from, to)` is called
/// - then: all values arrive in order, then the end, because `to` was moved into the call
#[test]
fn over_01_pipe() {
    each_run(|| {
        let (to, there) = channel::bounded(0);
        ecru::scope(|s| {
            s.spawn(|| flow::pipe(flow::from_iter(0..100), to).unwrap());
            assert_eq!(flow::collect(&there), Ok((0..100).collect::<Vec<_>>()));
        });
    });
}

/// - given: `pipe`, `partition` and both pipelines with `&to`
/// - when: `from` ends
/// - then: `to` stays open
#[test]
fn over_02_pipe_lent() {
    each_run(|| {
        let (to, there) = channel::unbounded();
        flow::pipe(flow::from_iter([1]), &to).unwrap();
        flow::partition(flow::from_iter([2, 3]), &to, &to, |n| *n == 2).unwrap();
        flow::pipeline(2, |n: u32| [n]).run(flow::from_iter([4]), &to).unwrap();
        flow::pipeline_unordered(2, |n: u32| [n]).run(flow::from_iter([5]), &to).unwrap();
        assert!(!there.is_closed());
        to.send(6).unwrap();
        assert_eq!(there.try_iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    });
}

/// - given: a pipe that holds a value
/// - when: `to` closes
/// - then: it ends, and its error contains the value; if `to` was already closed, nothing is
///   received
#[test]
fn over_03_pipe_target_closes() {
    each_run(|| {
        let (from, source) = channel::unbounded();
        let (to, there) = channel::bounded(1);
        ecru::scope(|s| {
            let pipe = s.spawn(|| flow::pipe(&source, &to));
            for n in 0..4 {
                from.send(n).unwrap();
            }
            // One value is in the channel, and one is held by the pipe.
            until(|| source.len() == 2);
            drop(there);
            assert_eq!(pipe.join().unwrap(), Err(SendError::Disconnected(Some(1))));
        });
        assert_eq!(source.try_iter().collect::<Vec<_>>(), [2, 3]);
        // If it is closed before it begins, nothing is received.
        from.send(4).unwrap();
        assert_eq!(flow::pipe(&source, &to), Err(SendError::Disconnected(None)));
        assert_eq!(source.recv(), Ok(4));
    });
}

/// - given: a pipe that waits to receive, or to send
/// - when: it is cancelled
/// - then: its error says so, and contains the value that it held
#[test]
fn over_04_pipe_cancelled() {
    each_run(|| {
        let (from, source) = channel::unbounded();
        let (to, there) = channel::bounded(0);
        ecru::scope(|s| {
            let idle = begin(s, || flow::pipe(&source, &to));
            idle.cancel();
            assert_eq!(idle.join().unwrap(), Err(SendError::Cancelled(None)));
            let full = begin(s, || flow::pipe(&source, &to));
            from.send(7).unwrap();
            until(|| source.is_empty());
            full.cancel();
            assert_eq!(full.join().unwrap(), Err(SendError::Cancelled(Some(7))));
        });
        drop(there);
    });
}

/// - given: values of two kinds
/// - when: `partition(from, yes, no, p)` is called
/// - then: each kind arrives in its channel, in order, and both channels end with the source
#[test]
fn over_05_partition() {
    each_run(|| {
        let ((yes, ays), (no, noes)) = (channel::bounded(2), channel::bounded(2));
        ecru::scope(|s| {
            s.spawn(|| flow::partition(flow::from_iter(0..10), yes, no, |n| n % 2 == 0));
            let even = s.spawn(|| flow::collect(&ays));
            assert_eq!(flow::collect(&noes), Ok(vec![1, 3, 5, 7, 9]));
            assert_eq!(even.join().unwrap(), Ok(vec![0, 2, 4, 6, 8]));
        });
    });
}

/// - given: a partition, one side of which has no reader
/// - when: a value for the other side comes next
/// - then: it is not received before the first has been delivered
#[test]
fn over_06_partition_stalls_together() {
    each_run(|| {
        let ((yes, ays), (no, noes)) = (channel::bounded(0), channel::bounded(0));
        ecru::scope(|s| {
            let source = flow::from_iter([1, 2]);
            let parting = s.spawn({
                let source = source.clone();
                move || flow::partition(source, yes, no, |n| n % 2 == 0)
            });
            until(|| source.len() == 1);
            settle();
            // 1 has no reader, so 2 is not even received.
            assert!(ays.try_recv().unwrap_err().is_empty());
            assert_eq!(source.len(), 1);
            assert_eq!((noes.recv(), ays.recv()), (Ok(1), Ok(2)));
            assert_eq!(parting.join().unwrap(), Ok(()));
        });
        assert!(noes.recv().is_err() && ays.recv().is_err());
    });
}

/// - given: a partition
/// - when: one target closes
/// - then: it ends, and its error contains the value that it held
#[test]
fn over_07_partition_target_closes() {
    each_run(|| {
        let ((yes, ays), (no, noes)) = (channel::unbounded(), channel::bounded(0));
        ecru::scope(|s| {
            let source = flow::from_iter([2, 1, 4]);
            let parting = s.spawn({
                let source = source.clone();
                move || flow::partition(source, yes, no, |n| n % 2 == 0)
            });
            until(|| source.len() == 1);
            drop(noes);
            assert_eq!(parting.join().unwrap(), Err(SendError::Disconnected(Some(1))));
            assert_eq!(flow::collect(&ays), Ok(vec![2]));
            assert_eq!(source.recv(), Ok(4));
        });
    });
}

/// - given: an iterator
/// - when: `send_all(to, items)` is called
/// - then: everything is sent; a closed target ends the call after one item, which is returned
#[test]
fn over_08_send_all() {
    each_run(|| {
        let (sender, receiver) = channel::bounded(1);
        ecru::scope(|s| {
            s.spawn(|| flow::send_all(sender, 0..50).unwrap());
            assert_eq!(flow::collect(&receiver).unwrap().len(), 50);
        });
        let (sender, receiver) = channel::unbounded();
        drop(receiver);
        let mut items = 0..;
        assert_eq!(flow::send_all(&sender, &mut items), Err(SendError::Disconnected(0)));
        assert_eq!(items.next(), Some(1));
    });
}

/// - given: an iterator, or an empty one
/// - when: `from_iter` is called
/// - then: a closed channel with all the items; for an empty iterator it has ended from the start
#[test]
fn over_09_from_iter() {
    assert_eq!(flow::collect(flow::from_iter("to".chars())), Ok(vec!['t', 'o']));
    let empty = flow::from_iter(std::iter::empty::<u8>());
    assert!(empty.is_closed());
    assert_eq!(empty.recv(), Err(RecvError::Disconnected));
}
