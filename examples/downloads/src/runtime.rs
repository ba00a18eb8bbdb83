//! Everything the program asks of ecru, in one place.
//!
//! STAND-IN: threads of the standard library behind the names ecru has, until ecru's own are there.
//! A read or a sleep looks at the cancel flag every 20 ms.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

thread_local!(static CANCEL: RefCell<Vec<Arc<AtomicBool>>> = const { RefCell::new(Vec::new()) });

#[derive(Debug, Clone, Copy)]
pub(crate) struct Cancelled;
impl std::fmt::Display for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cancelled")
    }
}
impl std::error::Error for Cancelled {}

pub(crate) fn is_cancelled() -> bool {
    CANCEL.with_borrow(|c| c.iter().any(|c| c.load(Ordering::SeqCst)))
}
/// Whether this error is a cancelled wait.
pub(crate) fn is_cancellation(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Cancelled>())
}

#[derive(Clone, Debug)]
pub(crate) struct CancelHandle(Arc<AtomicBool>);
impl CancelHandle {
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
pub(crate) fn cancel_scope<T>(body: impl FnOnce(CancelHandle) -> T) -> T {
    let flag = Arc::new(AtomicBool::new(false));
    CANCEL.with_borrow_mut(|c| c.push(flag.clone()));
    let out = body(CancelHandle(flag));
    CANCEL.with_borrow_mut(|c| c.pop());
    out
}
pub(crate) fn sleep(d: Duration) -> Result<(), Cancelled> {
    let end = Instant::now() + d;
    loop {
        if is_cancelled() {
            return Err(Cancelled);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
}
pub(crate) fn unblock<T>(f: impl FnOnce() -> T) -> T {
    f()
}
pub(crate) fn run<T: Send>(
    _workers: Option<usize>,
    body: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    Ok(body())
}
/// Runs `body`, and beside it `companion`, which is cancelled when the body has ended.
pub(crate) fn with_companion<T>(companion: impl FnOnce() + Send, body: impl FnOnce() -> T) -> T {
    let flags = CANCEL.with_borrow(Vec::clone);
    let mine = Arc::new(AtomicBool::new(false));
    std::thread::scope(|s| {
        let m = mine.clone();
        s.spawn(move || {
            CANCEL.with_borrow_mut(|c| {
                *c = flags;
                c.push(m);
            });
            companion()
        });
        let out = body();
        mine.store(true, Ordering::SeqCst);
        out
    })
}
pub(crate) fn map_buffered<I, R, F>(window: usize, items: I, f: F) -> Vec<R>
where
    I: IntoIterator,
    I::Item: Send,
    R: Send,
    F: Fn(I::Item) -> R + Send + Sync,
{
    let items: Vec<_> = items.into_iter().collect();
    let n = items.len();
    let items: Vec<_> = items.into_iter().map(|i| Mutex::new(Some(i))).collect();
    let results: Vec<_> = (0..n).map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let flags = CANCEL.with_borrow(Vec::clone);
    std::thread::scope(|s| {
        for _ in 0..window.min(n) {
            s.spawn(|| {
                CANCEL.with_borrow_mut(|c| *c = flags.clone());
                loop {
                    let i = next.fetch_add(1, Ordering::SeqCst);
                    if i >= n {
                        return;
                    }
                    let item = items[i].lock().unwrap().take().unwrap();
                    *results[i].lock().unwrap() = Some(f(item));
                }
            });
        }
    });
    results.into_iter().map(|r| r.into_inner().unwrap().unwrap()).collect()
}
/// Accepts for ever: `connection` runs in a task of its own for each; returns when cancelled, after all have ended.
pub(crate) fn accept_each(
    listener: &TcpListener,
    connection: impl Fn(TcpStream) + Send + Sync,
    mut on_error: impl FnMut(&io::Error),
) {
    let flags = CANCEL.with_borrow(Vec::clone);
    let connection = &connection;
    std::thread::scope(|s| {
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    let flags = flags.clone();
                    s.spawn(move || {
                        CANCEL.with_borrow_mut(|c| *c = flags);
                        connection(stream)
                    });
                }
                Err(e) if is_cancellation(&e) => return,
                Err(e) => {
                    on_error(&e);
                    if sleep(Duration::from_millis(10)).is_err() {
                        return;
                    }
                }
            }
        }
    })
}
#[derive(Debug)]
pub(crate) struct TcpListener(std::net::TcpListener);
impl TcpListener {
    pub(crate) fn bind(addr: SocketAddr) -> io::Result<Self> {
        std::net::TcpListener::bind(addr).map(Self)
    }
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
    pub(crate) fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        wait(self.0.as_fd(), rustix::event::PollFlags::IN, None)?;
        let (s, a) = self.0.accept()?;
        Ok((TcpStream(s, Mutex::new(None)), a))
    }
}
fn wait(
    fd: BorrowedFd<'_>,
    flags: rustix::event::PollFlags,
    limit: Option<Duration>,
) -> io::Result<()> {
    let end = limit.map(|l| Instant::now() + l);
    loop {
        if is_cancelled() {
            return Err(io::Error::other(Cancelled));
        }
        let mut fds = [rustix::event::PollFd::new(&fd, flags)];
        let t = rustix::event::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        if rustix::event::poll(&mut fds, Some(&t))? > 0 {
            return Ok(());
        }
        if end.is_some_and(|e| e <= Instant::now()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}
#[derive(Debug)]
pub(crate) struct TcpStream(std::net::TcpStream, Mutex<Option<Duration>>);
/// Connects, giving up after `limit`.
pub(crate) fn connect(addr: SocketAddr, limit: Option<Duration>) -> io::Result<TcpStream> {
    let s = match limit {
        Some(l) => std::net::TcpStream::connect_timeout(&addr, l)?,
        None => std::net::TcpStream::connect(addr)?,
    };
    Ok(TcpStream(s, Mutex::new(None)))
}
impl TcpStream {
    pub(crate) fn set_read_timeout(&self, d: Option<Duration>) -> io::Result<()> {
        *self.1.lock().unwrap() = d;
        Ok(())
    }
    pub(crate) fn set_write_timeout(&self, d: Option<Duration>) -> io::Result<()> {
        self.0.set_write_timeout(d)
    }
    pub(crate) fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.0.set_nodelay(on)
    }
}
impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
impl Read for &TcpStream {
    fn read(&mut self, b: &mut [u8]) -> io::Result<usize> {
        let limit = *self.1.lock().unwrap();
        wait(self.0.as_fd(), rustix::event::PollFlags::IN, limit)?;
        (&self.0).read(b)
    }
}
impl Write for &TcpStream {
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        wait(self.0.as_fd(), rustix::event::PollFlags::OUT, None)?;
        let n = b.len().min(16384);
        (&self.0).write(&b[..n])
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
