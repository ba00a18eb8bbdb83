//! The fds that ops name.
//!
//! The kernel reuses the number of a closed fd for the next fd that is opened, so a number alone
//! does not say which file is meant. Some drivers remember something about an fd, for instance that
//! it is registered for readiness. They would apply it to an unrelated file. So each use of a
//! number has a generation of its own.
//!
//! # The hint
//! A read from a stream that does not fill its buffer has left nothing behind, and an attempt at
//! the next read would probably be in vain. A descriptor remembers the thread that made such a
//! read. Only drivers write and read this hint. A wrong hint costs time, but must not cost
//! correctness: `uring` and `thread` hand the next read to the kernel, which looks at what is
//! there. `poll` relies on the hint only under the conditions that its module lists.

#[cfg(all(test, not(loom)))]
use super::loopback::File;
use crate::base::local;
use crate::base::sync::StaticU64;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
#[cfg(all(test, not(loom)))]
use std::sync::{Arc, OnceLock};

/// An fd, which use of its number this is, and what drivers remember of it. The code that makes an
/// op of it keeps the fd open.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(super) fd: RawFd,
    pub(super) generation: u64,
    /// The identity of the thread whose last read has left nothing behind, or 0. Relaxed: see the
    /// module.
    drained_by: AtomicUsize,
    /// The file in memory that this names instead of an fd.
    #[cfg(all(test, not(loom)))]
    file: Option<Arc<File>>,
}

/// An owned fd that ops can name.
#[derive(Debug)]
pub(crate) struct OwnedDescriptor {
    owned: Owned,
    name: Descriptor,
}

/// What an [`OwnedDescriptor`] closes when it is dropped.
#[derive(Debug)]
enum Owned {
    Kernel(OwnedFd),
    /// The fd that stands for a file in memory where one is asked for.
    #[cfg(all(test, not(loom)))]
    Loopback(OnceLock<OwnedFd>),
}

impl OwnedDescriptor {
    pub(crate) fn new(fd: OwnedFd) -> OwnedDescriptor {
        OwnedDescriptor { name: Descriptor::of(&fd), owned: Owned::Kernel(fd) }
    }

    /// Returns the descriptor of a file in memory.
    #[cfg(all(test, not(loom)))]
    pub(super) fn loopback(file: Arc<File>) -> OwnedDescriptor {
        let name = Descriptor { file: Some(file), ..Descriptor::of(&-1) };
        OwnedDescriptor { name, owned: Owned::Loopback(OnceLock::new()) }
    }

    /// Returns the descriptor of the connection that an accept has returned as its result.
    ///
    /// # Safety
    /// An accept on this listener has returned this result, which has not been adopted yet.
    #[expect(unsafe_code, reason = "owns an fd by its number")]
    pub(crate) unsafe fn accepted(listener: &Descriptor, result: u32) -> OwnedDescriptor {
        #[cfg(all(test, not(loom)))]
        if let Some(File::Listener(listening)) = listener.file() {
            return listening.adopt(result);
        }
        let _ = listener;
        let fd = RawFd::try_from(result).expect("the kernel's fds are non-negative ints");
        // SAFETY: the caller's promise: the result is a new fd, which nothing else owns.
        OwnedDescriptor::new(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Returns the name for ops.
    #[inline(always)]
    pub(crate) fn name(&self) -> &Descriptor {
        &self.name
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        match self.owned {
            Owned::Kernel(fd) => fd,
            #[cfg(all(test, not(loom)))]
            Owned::Loopback(fd) => fd.into_inner().unwrap_or_else(|| placeholder(&self.name)),
        }
    }
}

impl AsFd for OwnedDescriptor {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.owned {
            Owned::Kernel(fd) => fd.as_fd(),
            #[cfg(all(test, not(loom)))]
            Owned::Loopback(fd) => fd.get_or_init(|| placeholder(&self.name)).as_fd(),
        }
    }
}

/// Opens an fd that stands for a file in memory, and through which its content cannot be reached.
#[cfg(all(test, not(loom)))]
fn placeholder(name: &Descriptor) -> OwnedFd {
    use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};
    use rustix::net::{AddressFamily, SocketType, socket};
    if let Some(File::Socket(_) | File::Listener(_)) = name.file() {
        return socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    }
    let memory = memfd_create(c"loopback", MemfdFlags::CLOEXEC).unwrap();
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

impl Descriptor {
    /// Returns a name for an fd that other code keeps open, for the life of the process or of a
    /// test. Called once for each fd.
    pub(crate) fn of(fd: &impl AsRawFd) -> Descriptor {
        Descriptor {
            fd: fd.as_raw_fd(),
            generation: next_generation(),
            drained_by: AtomicUsize::new(0),
            #[cfg(all(test, not(loom)))]
            file: None,
        }
    }

    /// Returns the file in memory that this names, if it does not name an fd.
    #[cfg(all(test, not(loom)))]
    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_deref()
    }

    /// Returns the number, for descriptions.
    pub(crate) fn number(&self) -> RawFd {
        self.fd
    }

    /// Returns whether some thread's last read has left nothing behind.
    #[inline(always)]
    pub(super) fn is_drained(&self) -> bool {
        self.drained_by.load(Ordering::Relaxed) != 0
    }

    /// Returns whether the last read was made by the current thread and has left nothing behind.
    pub(super) fn is_drained_here(&self) -> bool {
        self.drained_by.load(Ordering::Relaxed) == here()
    }

    /// Notes whether a read on the current thread has left nothing behind.
    #[inline(always)]
    pub(super) fn note_drained(&self, drained: bool) {
        let by = if drained { here() } else { 0 };
        if self.drained_by.load(Ordering::Relaxed) != by {
            self.drained_by.store(by, Ordering::Relaxed);
        }
    }
}

/// Returns an identity of the current thread, which is never 0. (With the baton backend this is the
/// thread of the worker.)
#[inline(always)]
fn here() -> usize {
    local::with(|local| ptr::from_ref(local).addr())
}

fn next_generation() -> u64 {
    static NEXT: StaticU64 = StaticU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
