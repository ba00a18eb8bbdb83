//! The fds that ops name.
//!
//! The kernel reuses the number of a closed fd for the next fd that is opened, so a number alone
//! does not say which file is meant. Some drivers remember something about an fd, for instance that
//! it is registered for readiness. They would apply it to an unrelated file. So each use of a
//! number has a generation of its own. It is decided when a driver first asks for it, because most
//! descriptors of files are never remembered by any driver.
//!
//! # The hint
//! A read from a stream that does not fill its buffer has left nothing behind, and an attempt at
//! the next read would probably be in vain. A descriptor remembers the thread that made such a
//! read. Only drivers write and read this hint. A wrong hint costs time, but must not cost
//! correctness: `uring` and `thread` hand the next read to the kernel, which looks at what is
//! there. `poll` relies on the hint only under the conditions that its module lists.

#[cfg(feature = "sim")]
use super::sim::File;
use crate::base::local;
use crate::base::sync::StaticU64;
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
#[cfg(feature = "sim")]
use std::sync::{Arc, OnceLock};

/// An fd, and the notes that drivers keep about it. The generation tells apart the successive open
/// files that have the same fd number. The code that starts an op on the fd keeps it open.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(super) fd: RawFd,
    /// See [`generation`](Descriptor::generation); 0 while it has none.
    generation: AtomicU64,
    /// The identity of the thread whose last read has emptied the file, or 0. Relaxed: see the
    /// module.
    drained_by: AtomicUsize,
    /// The file in memory that this names instead of an fd.
    #[cfg(feature = "sim")]
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
    #[cfg(feature = "sim")]
    InMemory(OnceLock<OwnedFd>),
}

impl OwnedDescriptor {
    pub(crate) fn new(fd: OwnedFd) -> OwnedDescriptor {
        OwnedDescriptor { name: Descriptor::of(&fd), owned: Owned::Kernel(fd) }
    }

    /// Returns the descriptor of a file in memory.
    #[cfg(feature = "sim")]
    pub(super) fn in_memory(file: Arc<File>) -> OwnedDescriptor {
        let name = Descriptor { file: Some(file), ..Descriptor::of(&-1) };
        OwnedDescriptor { name, owned: Owned::InMemory(OnceLock::new()) }
    }

    /// Returns another descriptor of the same file in memory, or `None` if this is one of the
    /// kernel.
    #[cfg(feature = "sim")]
    pub(super) fn share(&self) -> Option<OwnedDescriptor> {
        self.name.file.clone().map(OwnedDescriptor::in_memory)
    }

    /// Returns the descriptor of the connection that an accept has returned as its result.
    ///
    /// # Safety
    /// An accept on this listener has returned this result, which has not been adopted yet.
    #[expect(unsafe_code, reason = "owns an fd by its number")]
    pub(crate) unsafe fn accepted(listener: &Descriptor, result: u32) -> OwnedDescriptor {
        #[cfg(not(feature = "sim"))]
        let _ = listener;
        #[cfg(feature = "sim")]
        if let Some(file) = listener.file() {
            return file.accepted(result);
        }
        let fd = RawFd::try_from(result).expect("the kernel's fds are non-negative ints");
        // SAFETY: the caller's promise: the result is a new fd, which nothing else owns.
        OwnedDescriptor::new(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Returns the name for ops.
    #[inline(always)]
    pub(crate) fn name(&self) -> &Descriptor {
        &self.name
    }

    /// Borrows the fd for a request to the kernel.
    ///
    /// # Errors
    /// Fails with `EBADF` if this names a file in memory, of which the kernel knows nothing.
    #[inline(always)]
    pub(super) fn kernel(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.owned {
            Owned::Kernel(fd) => Ok(fd.as_fd()),
            #[cfg(feature = "sim")]
            Owned::InMemory(_) => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        match self.owned {
            Owned::Kernel(fd) => fd,
            #[cfg(feature = "sim")]
            Owned::InMemory(fd) => {
                let fd = fd.into_inner().unwrap_or_else(|| placeholder(&self.name));
                if let Some(file) = &self.name.file {
                    file.give_away(&fd);
                }
                fd
            }
        }
    }
}

impl AsFd for OwnedDescriptor {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.owned {
            Owned::Kernel(fd) => fd.as_fd(),
            #[cfg(feature = "sim")]
            Owned::InMemory(fd) => fd.get_or_init(|| placeholder(&self.name)).as_fd(),
        }
    }
}

/// Opens the fd that stands for a file in memory.
#[cfg(feature = "sim")]
#[cold]
fn placeholder(name: &Descriptor) -> OwnedFd {
    name.file.as_ref().expect("it has no fd of its own").placeholder()
}

impl Descriptor {
    /// Returns a name for an fd that other code keeps open, for the life of the process or of a
    /// test. Called once for each fd.
    pub(crate) fn of(fd: &impl AsRawFd) -> Descriptor {
        Descriptor {
            fd: fd.as_raw_fd(),
            generation: AtomicU64::new(0),
            drained_by: AtomicUsize::new(0),
            #[cfg(feature = "sim")]
            file: None,
        }
    }

    /// Returns the file in memory that this names, if it does not name an fd.
    #[cfg(feature = "sim")]
    #[inline(always)]
    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_deref()
    }

    /// Returns which use of its number this is, and decides it at the first call. The values are
    /// relaxed: a generation says nothing about other memory.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        match self.generation.load(Ordering::Relaxed) {
            0 => self.begin_generation(),
            generation => generation,
        }
    }

    #[cold]
    fn begin_generation(&self) -> u64 {
        let (new, relaxed) = (next_generation(), Ordering::Relaxed);
        // Of several threads that decide at once, one does.
        self.generation.compare_exchange(0, new, relaxed, relaxed).map_or_else(|own| own, |_| new)
    }

    /// Borrows the fd. The code that has made the name keeps the fd open while the name is used.
    #[expect(unsafe_code, reason = "borrows an fd by its number")]
    pub(super) fn borrow(&self) -> BorrowedFd<'_> {
        // SAFETY: S3: the fd stays open for as long as ops and requests name it.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }

    /// Returns the number, for descriptions.
    pub(crate) fn number(&self) -> RawFd {
        self.fd
    }

    /// Returns the number of the fd, or `simulated(number)` for a file in memory, for `Debug`.
    pub(crate) fn shown(&self) -> impl fmt::Debug {
        #[cfg(feature = "sim")]
        if let Some(file) = &self.file {
            return Shown::Simulated(file.shown_number());
        }
        Shown::Fd(self.fd)
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

/// What is shown of a descriptor.
enum Shown {
    Fd(RawFd),
    #[cfg(feature = "sim")]
    Simulated(u64),
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shown::Fd(fd) => fmt::Debug::fmt(fd, f),
            #[cfg(feature = "sim")]
            Shown::Simulated(number) => write!(f, "simulated({number})"),
        }
    }
}

fn next_generation() -> u64 {
    static NEXT: StaticU64 = StaticU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
