//! The public API, used as its documentation shows. This code must continue to compile. Other tests
//! show that it works.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use ecru::channel::{self, Receiver, RecvError, SendError, Sender};
use ecru::source::{self, WaitList};
use ecru::{
    CancelHandle, CancelReason, Cancelled, DriverKind, Elapsed, JoinError, JoinHandle, Runtime,
    RuntimeHandle, Scope, Source, StartError, Started, TaskBuilder, TryScope, TryTaskBuilder,
};

const MS: Duration = Duration::from_millis(1);

#[test]
fn start() {
    assert_eq!(ecru::run(|| 1), 1);
    let builder = Runtime::builder()
        .workers(2)
        .stack_size(256 * 1024)
        .driver(DriverKind::Auto)
        .name("n")
        .placement(ecru::Placement::Spread);
    let runtime: Runtime = builder.cancel_on_ctrl_c(false).detect_deadlock(false).build().unwrap();
    let handle: RuntimeHandle = runtime.handle();
    let value: u8 = runtime.run(|| {
        let spawned: JoinHandle<'static, u8> = handle.spawn(|| 2).unwrap();
        let again = RuntimeHandle::current().clone();
        let _tree: ecru::TaskTree = again.dump();
        spawned.join().unwrap()
    });
    assert_eq!(value, 2);
    assert!(handle.spawn(|| ()).is_err());
    for kind in [DriverKind::Auto, DriverKind::Uring, DriverKind::Poll] {
        let _ = Runtime::builder().driver(kind);
    }
    assert!(Runtime::builder().workers(0).build().is_err());
}

fn helper<'scope>(s: &'scope Scope<'scope, '_>) -> JoinHandle<'scope, u32> {
    s.spawn(|| 7)
}

fn failing<'scope>(s: &'scope TryScope<'scope, '_, String>) {
    let builder: TryTaskBuilder<'scope, '_, String> = s.builder();
    builder.spawn(|| Err::<(), _>("no".to_owned()));
}

#[test]
fn tasks_and_scopes() {
    ecru::run(|| {
        let seven = ecru::scope(|s| {
            let local = s.spawn_local(|| 1);
            s.spawn_daemon(|| ecru::sleep(Duration::from_secs(60)));
            let named = s
                .builder()
                .name("named")
                .stack_size(64 * 1024)
                .spawn(|| ecru::task::current().name().map(str::to_owned));
            let builder: TaskBuilder<'_, '_> = s.builder().near();
            builder.spawn_local(|| ());
            s.builder().spawn_daemon(|| ());
            assert_eq!(named.name(), Some("named"));
            assert!(named.join().unwrap().is_some());
            assert!(matches!(local.join_timeout(Duration::from_secs(9)), Some(Ok(1))));
            let ended = local.join_deadline(Instant::now() + Duration::from_secs(9));
            assert!(local.is_finished() && matches!(ended, Some(Err(JoinError::Taken))));
            assert!(matches!(local.join(), Err(JoinError::Taken)));
            let shared = helper(s).shared();
            let two = shared.clone();
            assert_eq!((shared.join().unwrap(), two.join().unwrap()), (7, 7));
            assert!(shared.join_deadline(Instant::now()).unwrap().is_ok());
            let started: Result<(u8, JoinHandle<'_, u32>), StartError<u32>> =
                s.start(|started: Started<u8>| -> u32 {
                    started.ready(1);
                    2
                });
            assert_eq!(started.unwrap().1.join().unwrap(), 2);
            match s.start(|_: Started<u8>| -> u32 { 3 }) {
                Err(StartError::Ended(value)) => assert_eq!(value, 3),
                Err(StartError::Join(error)) => panic!("{error}"),
                Ok(_) => unreachable!(),
            }
            helper(s).join().unwrap()
        });
        assert_eq!(seven, 7);
        let failed: Result<(), String> = ecru::try_scope(|s| {
            let started = s.start(|started| {
                started.ready(1);
                Ok(())
            });
            assert!(started.is_ok());
            failing(s);
            ecru::sleep(Duration::from_secs(60)).map_err(|cancelled| cancelled.to_string())
        });
        assert_eq!(failed.unwrap_err(), "no");
        ecru::scope(|s| {
            let child = s.spawn(|| ecru::sleep(Duration::from_secs(60)));
            child.cancel();
            s.cancel();
            let _ = child.join();
        });
        assert_eq!(ecru::spawn(|| 3).join().unwrap(), 3);
        ecru::yield_now().unwrap();
        ecru::sleep_until(Instant::now()).unwrap();
        let _id = ecru::task::current().id();
        let panicked =
            ecru::scope(|s| s.spawn(|| -> () { std::panic::panic_any("payload") }).join());
        match panicked {
            Err(JoinError::Panicked(payload)) => {
                assert_eq!(payload.message(), Some("payload"));
                let _: Box<dyn std::any::Any + Send> = payload.into_inner();
            }
            other => panic!("{other:?}"),
        }
        let _: io::Error = JoinError::Empty.into();
    });
}

#[test]
fn cancellation() {
    ecru::run(|| {
        let elapsed: Result<Result<(), Cancelled>, Elapsed> =
            ecru::timeout(MS, || ecru::sleep(Duration::from_secs(60)));
        let _: io::Error = elapsed.unwrap_err().into();
        let _ = ecru::timeout_at(Instant::now() + MS, || 1);
        let tried: Result<u8, io::Error> = ecru::try_timeout(Duration::from_secs(9), || Ok(1));
        assert_eq!(tried.unwrap(), 1);
        ecru::cancel_scope(|c: CancelHandle| {
            let also = c.clone();
            also.cancel();
            assert!(ecru::is_cancelled());
            let cancelled = ecru::checkpoint().unwrap_err();
            assert_eq!(cancelled.reason(), CancelReason::Explicit);
            let error: io::Error = cancelled.into();
            assert_eq!(error.kind(), io::ErrorKind::Other);
            assert_eq!(Cancelled::find(&error).unwrap().reason(), CancelReason::Explicit);
            assert!(ecru::shield(|| ecru::sleep(MS)).is_ok());
            assert!(ecru::shield_for(Duration::from_secs(9), || ecru::sleep(MS)).is_ok());
        });
        assert_eq!(ecru::on_cancel(|| (), || 5), 5);
        ecru::no_suspend(|| ());
    });
    use CancelReason::{Deadline, Explicit, ScopeEnd, Shutdown, Sibling};
    assert_eq!([Explicit, Deadline, Sibling, ScopeEnd, Shutdown].len(), 5);
}

ecru::task_local! {
    static DEPTH: u32;
    static WIDTH: u32
}

#[derive(Default)]
struct Bell {
    rung: AtomicUsize,
    list: WaitList,
}

impl Source for Bell {
    type Item = usize;

    fn try_take(&self) -> Option<usize> {
        let rung = self.rung.load(SeqCst);
        (rung > 0).then_some(rung)
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.list);
    }
}

#[test]
fn sources() {
    ecru::run(|| {
        let bell = Arc::new(Bell::default());
        ecru::scope(|s| {
            let waiting = s.spawn(|| bell.wait());
            ecru::yield_now().unwrap();
            bell.rung.store(1, SeqCst);
            bell.list.notify_one();
            bell.list.notify_all();
            assert_eq!(waiting.join().unwrap(), Ok(1));
        });
        let (tx, rx) = channel::unbounded::<u32>();
        tx.send(4).unwrap();
        assert_eq!(rx.clone().filter(|n: &u32| *n > 3).map(|got| got.unwrap() + 1).wait(), Ok(5));
        assert_eq!(source::ready(1).or(source::never()).wait(), Ok(1));
        assert_eq!(source::race([source::ready(2)]).wait(), Ok(2));
        assert_eq!(source::race_indexed([source::ready(3)]).wait(), Ok((0, 3)));
        assert!(matches!(
            source::either(source::ready(1), source::never::<u8>()).wait(),
            Ok(source::Either::Left(1))
        ));
        let _ = source::from_iter([1]);
        let future = source::ready(6).to_future();
        assert!(ecru::block_on(future).is_ok());
        ecru::scope(|s| {
            assert_eq!(ecru::block_on(s.spawn(|| 1)).unwrap().unwrap(), 1);
            assert_eq!(ecru::block_on(s.spawn(|| 2).into_future()).unwrap().unwrap(), 2);
            assert_eq!(ecru::block_on(s.spawn(|| 3).to_future()).unwrap().unwrap(), 3);
        });
        let _subscription: ecru::source::Subscription = source::ready(1).on_ready(|_| ());
        tx.send(9).unwrap();
        let (other, _kept) = channel::bounded::<u8>(1);
        let got = ecru::select! {
            recv(rx) -> message => message.unwrap(),
            wait(source::never::<u8>()) -> _ => unreachable!(),
            cancelled => unreachable!(),
            default(Duration::from_secs(9)) => unreachable!(),
        };
        assert_eq!(got, 9);
        channel::select! {
            recv(rx) -> _ => unreachable!(),
            default => (),
        }
        channel::select_biased! {
            recv(rx) -> _ => unreachable!(),
            default(MS) => (),
        }
        ecru::select_biased! {
            send(other, 1) -> sent => sent.unwrap(),
            default => unreachable!(),
        }
        let mut select = channel::Select::new();
        let index = select.recv(&rx);
        assert!(select.try_select().is_err());
        tx.send(1).unwrap();
        let operation = select.select();
        assert_eq!((operation.index(), operation.recv(&rx)), (index, Ok(1)));
    });
}

#[test]
fn channels() {
    let (tx, rx): (Sender<u8>, Receiver<u8>) = channel::bounded(2);
    tx.send(1).unwrap();
    tx.send_timeout(2, MS).unwrap();
    assert!(tx.try_send(3).is_err());
    assert!(tx.send_deadline(3, Instant::now()).is_err());
    assert_eq!((tx.len(), rx.is_full(), rx.is_empty(), rx.capacity()), (2, true, false, Some(2)));
    assert_eq!((rx.recv(), rx.try_recv()), (Ok(1), Ok(2)));
    assert!(rx.recv_timeout(MS).is_err() && rx.recv_deadline(Instant::now()).is_err());
    let closer = tx.closer();
    assert!(tx.same_channel(&tx.clone()));
    closer.close();
    tx.close();
    rx.close_now();
    assert!(rx.is_closed());
    assert_eq!(tx.send(1), Err(SendError::Disconnected(1)));
    assert_eq!(rx.recv(), Err(RecvError::Disconnected));
    assert_eq!(SendError::Cancelled(1).into_inner(), 1);
    assert_eq!(rx.iter().count() + rx.try_iter().count() + rx.results().count(), 0);
    assert_eq!(rx.into_iter().count(), 0);
    for (tx, rx) in
        [channel::unbounded(), channel::dropping(1), channel::sliding(1), channel::oneshot::<u8>()]
    {
        tx.send(1).unwrap();
        assert_eq!(rx.recv(), Ok(1));
    }
    let _: [Receiver<Instant>; 3] =
        [channel::after(MS), channel::at(Instant::now()), channel::tick(MS)];
    let _: Receiver<u8> = channel::never();
}

#[test]
fn combinators() {
    ecru::run(|| {
        ecru::scope(|s| {
            let ok = |n: u8| move || Ok::<u8, JoinError>(n);
            assert_eq!(ecru::zip((s.spawn(ok(1)), s.spawn(ok(2)))).unwrap(), (1, 2));
            assert_eq!(ecru::first_ok([s.spawn(ok(3))]).unwrap(), 3);
            assert_eq!(ecru::first_ok_keep([s.spawn(ok(3))]).unwrap(), 3);
            assert_eq!(ecru::join_all([s.spawn(|| 4)]).len(), 1);
            assert_eq!(ecru::try_join_all([s.spawn(ok(5))]).unwrap(), [5]);
            let set = ecru::JoinSet::new(s);
            set.spawn(|| 6);
            assert_eq!(set.join_next().unwrap().unwrap(), 6);
            assert!(set.join_next().is_none());
        });
        let (one, two) = ecru::join!(1, "two");
        assert_eq!((one.unwrap(), two.unwrap()), (1, "two"));
    });
}

#[test]
fn schedules_and_parallel_maps() {
    use ecru::schedule::{Delay, Jitter};
    use ecru::{Retry, Schedule};
    ecru::run(|| {
        assert_eq!(Schedule::every(MS).max_runs(2).jitter(Jitter::None).run(|| 1), Ok(1));
        let _ =
            (Schedule::exponential(MS).base(2), Schedule::fibonacci(MS), Schedule::until_err(MS));
        assert_eq!(Schedule::until_ok(MS).max_runs(2).run(|| Ok::<u8, u8>(1)), Ok(Ok(1)));
        let retry = Retry::new().max_failures(1).delay(Delay::Constant(MS)).jitter(Jitter::Equal);
        assert_eq!(retry.until_ok(|| Ok::<u8, Cancelled>(1)), Ok(1));
        assert_eq!(ecru::par::map([1, 2], |n| n + 1), [2, 3]);
        assert_eq!(ecru::par::map_buffered(1, [1, 2], |n| n + 1), [2, 3]);
        let until: Vec<Option<u8>> = ecru::par::map_until(Instant::now(), [1], |n: u8| n);
        assert_eq!(until, [None]);
        ecru::par::for_each(1, [1], |_| ());
        assert_eq!(ecru::par_for!(x in [1, 2], y in [10], let z = x + y, if z > 11 => z), [12]);
        ecru::scope(|s| {
            assert!(s.map([1], |n| n).all(|one| one.is_ok()));
            assert!(s.map_buffered(2, [1], |n| n).all(|one| one.is_ok()));
            assert!(s.map_chunks(2, [1], |n| n).all(|one| one.join().is_ok()));
        });
    });
}

fn answer(mut stream: ecru::net::TcpStream, _peer: SocketAddr) -> io::Result<()> {
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    stream.write_all(&byte)
}

#[test]
fn twins() {
    use ecru::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
    ecru::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        ecru::scope(|s| {
            let serving = s.spawn(|| listener.serve(10, answer));
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"x").unwrap();
            let mut back = String::new();
            (&stream).read_to_string(&mut back).unwrap();
            assert_eq!(back, "x");
            serving.cancel();
            assert!(serving.join().unwrap().is_err());
        });
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"u", socket.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 4];
        assert_eq!(socket.recv_from(&mut buffer).unwrap().0, 1);
        let (mut a, b) = UnixStream::pair().unwrap();
        a.write_all(b"y").unwrap();
        let (c, d) = UnixStream::pair().unwrap();
        drop(a);
        let copied: (u64, u64) = ecru::scope(|s| {
            let peer = s.spawn(move || {
                io::read_to_string(&d)
                    .and_then(|text| d.shutdown(ecru::net::Shutdown::Both).map(|()| text))
            });
            let copied = ecru::io::copy_bidirectional(&b, &c).unwrap();
            assert_eq!(peer.join().unwrap().unwrap(), "y");
            copied
        });
        assert_eq!(copied, (1, 0));
        let _ = (UnixListener::bind::<&str>, UnixDatagram::pair().unwrap());
        let folder = std::env::temp_dir().join(format!("ecru-contract-{}", std::process::id()));
        ecru::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("file");
        ecru::fs::write(&path, "text").unwrap();
        let file: ecru::fs::File =
            ecru::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert_eq!(file.write_at(b"T", 0).unwrap(), 1);
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 4);
        assert_eq!(ecru::fs::read_to_string(&path).unwrap(), "Text");
        ecru::fs::remove_dir_all(&folder).unwrap();
        let mut child: ecru::process::Child = ecru::process::Command::new("true").spawn().unwrap();
        let exit: ecru::process::Exit = child.exit();
        assert!(exit.wait().unwrap().unwrap().success());
        assert!(child.wait().unwrap().success());
        let _ = (ecru::io::stdin(), ecru::io::stdout(), ecru::io::stderr());
        assert_eq!(ecru::io::copy(&mut &b"abc"[..], &mut Vec::new()).unwrap(), 3);
        let ctrl_c: ecru::signal::Signal = ecru::signal::ctrl_c().unwrap();
        assert!(ctrl_c.try_take().is_none());
        assert_eq!(ecru::unblock(|| 1), 1);
        let begin = ecru::time::now();
        ecru::time::sleep_until(begin + MS).unwrap();
        ecru::time::sleep(MS).unwrap();
        let _ = ecru::time::interval(MS);
        let timer = ecru::time::Timer::new(MS);
        timer.start().unwrap();
        assert!(timer.start().is_err());
        timer.cancel();
    });
}

#[test]
fn locks() {
    use ecru::sync::{
        Barrier, Condvar, Latch, LazyLock, Mutex, Notify, OnceLock, RwLock, Semaphore, SetOnce,
    };
    ecru::run(|| {
        let (mutex, condvar) = (Mutex::new(1), Condvar::new());
        assert_eq!(*mutex.lock(), 1);
        let mut guard = mutex.lock_cancellable().unwrap();
        let waited: Result<_, _> = ecru::timeout(MS, || condvar.wait(&mut guard));
        assert!(waited.is_err());
        drop(guard);
        assert_eq!(*RwLock::new(1).read(), 1);
        let permit: ecru::sync::Permit = Semaphore::new(1).acquire().unwrap();
        drop(permit);
        assert!(Barrier::new(1).wait().unwrap().is_leader());
        let latch = Latch::new(1);
        latch.count_down();
        latch.wait().unwrap();
        let notify = Notify::new();
        notify.notify_one();
        notify.wait().unwrap();
        assert_eq!((OnceLock::new().get_or_init(|| 1), *LazyLock::new(|| 2)), (&1, 2));
        let once = SetOnce::new();
        once.set(1).unwrap();
        assert_eq!(DEPTH.scope(1, || DEPTH.with(|depth| *depth)), 1);
        assert_eq!(WIDTH.scope(2, || WIDTH.get()), 2);
    });
}

#[test]
fn locks_as_in_std() {
    use ecru::sync::poison::{Barrier, Condvar, Mutex, RwLock};
    ecru::run(|| {
        let (mutex, condvar) = (Mutex::new(1), Condvar::new());
        let (guard, waited) = condvar.wait_timeout(mutex.lock().unwrap(), MS).unwrap();
        assert!(waited.timed_out() && *guard == 1);
        assert_eq!(*RwLock::new(1).read().unwrap(), 1);
        assert!(Barrier::new(1).wait().is_leader());
    });
}

#[test]
fn coroutines() {
    use ecru::coroutine::{
        self, Coroutine, CoroutineState, Executor, Generator, Items, ScopedCoroutine, Stack,
        StackPool, Yielder, remaining_stack,
    };
    let coroutine: Coroutine<u8, u8, &str> = Coroutine::new(|yielder: &Yielder<u8, u8>, first| {
        assert_eq!(yielder.suspend(first + 1), 9);
        assert_eq!(yielder.suspend_with(3, || ()), 8);
        assert!(remaining_stack() > 1000);
        "end"
    });
    assert_eq!(coroutine.resume(1), CoroutineState::Yielded(2));
    assert_eq!(coroutine.resume(9), CoroutineState::Yielded(3));
    assert_eq!(coroutine.resume(8), CoroutineState::Complete("end"));
    let numbers: Generator<i32> = Generator::new(|yielder| (1..3).for_each(|n| yielder.suspend(n)));
    assert_eq!(numbers.collect::<Vec<_>>(), [1, 2]);
    let borrowed = vec![1, 2];
    let sum = coroutine::scoped(
        |yielder: &Yielder<(), i32>, ()| borrowed.iter().for_each(|n| yielder.suspend(*n)),
        |coroutine: &ScopedCoroutine<(), i32, ()>| {
            let state = coroutine.resume(());
            assert_eq!(state, CoroutineState::Yielded(1));
            1
        },
    );
    let all = coroutine::generate(
        |yielder| borrowed.iter().for_each(|n| yielder.suspend(*n)),
        |items: Items<'_, i32>| items.collect::<Vec<_>>(),
    );
    assert_eq!((sum, all), (1, borrowed));
    let _ = (Stack::new(64 * 1024).unwrap(), StackPool::new(64 * 1024));
    let executor = Executor::new();
    executor.run_soon(|| ());
    let ran: bool = executor.tick();
    assert!(ran && !executor.tick());
}
