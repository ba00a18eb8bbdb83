//! Opens a ring in the best mode that the kernel supports. Explains a refusal in plain text.
#![expect(unsafe_code, reason = "queues an entry that names no memory")]

use io_uring::{Builder, IoUring, Probe, opcode};
use std::io;

/// Entries of the submission queue. More may be submitted between two polls, at the cost of a
/// system call for each 256.
pub(super) const ENTRIES: u32 = 256;

/// Entries of the completion queue, for each entry of the submission queue. The kernel keeps what
/// does not fit, which is slower but loses nothing.
const COMPLETIONS_PER_ENTRY: u32 = 8;

/// If memory is short, fewer entries than this are not tried.
const FEWEST_ENTRIES: u32 = 8;

/// How the kernel hands completions to the worker, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// One thread owns the ring. Completions wait until the thread asks for them (Linux 6.1).
    Deferred,
    /// Completions are run at the next transition into the kernel, without an interrupt (Linux
    /// 5.19).
    Cooperative,
    /// Completions interrupt the worker.
    Plain,
}

impl Mode {
    /// The best mode that can be used. On the backend that gives each task a thread, several
    /// threads enter a worker's ring in turn (B1). The modes with one owner, or without interrupts,
    /// do not allow that.
    pub(super) const BEST: Mode = if cfg!(ecru_baton) { Mode::Plain } else { Mode::Deferred };

    const ALL: [Mode; 3] = [Mode::Deferred, Mode::Cooperative, Mode::Plain];

    fn apply(self, builder: &mut Builder) {
        match self {
            Mode::Deferred => builder
                .setup_single_issuer()
                .setup_defer_taskrun()
                .setup_taskrun_flag()
                .setup_submit_all(),
            Mode::Cooperative => {
                builder.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all()
            }
            Mode::Plain => builder,
        };
    }
}

/// Opens a ring with at most `entries` entries, in the first mode from `best` on that the kernel
/// supports.
pub(super) fn open(entries: u32, best: Mode) -> io::Result<(IoUring, Mode)> {
    let mut refusal = None;
    for mode in Mode::ALL.into_iter().filter(|mode| *mode >= best) {
        match open_in(mode, entries) {
            Ok(ring) => {
                require_features(&ring)?;
                return Ok((ring, mode));
            }
            // The kernel does not know one of the flags.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refusal = Some(error),
            Err(error) => return Err(explain(&error)),
        }
    }
    Err(explain(&refusal.unwrap_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))))
}

/// Opens a ring in this mode, with fewer entries if memory is short.
fn open_in(mode: Mode, mut entries: u32) -> io::Result<IoUring> {
    loop {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_cqsize(entries * COMPLETIONS_PER_ENTRY).dontfork();
        mode.apply(&mut builder);
        match builder.build(entries) {
            Err(error)
                if error.raw_os_error() == Some(libc::ENOMEM) && entries > FEWEST_ENTRIES =>
            {
                entries = (entries / 2).max(FEWEST_ENTRIES);
            }
            outcome => return outcome,
        }
    }
}

/// Checks for what the driver cannot do without: waits with a timeout, completions that are never
/// dropped, and polls that fire more than once. A feature that came with the same kernel (5.13)
/// marks the last one.
fn require_features(ring: &IoUring) -> io::Result<()> {
    let parameters = ring.params();
    if parameters.is_feature_ext_arg()
        && parameters.is_feature_nodrop()
        && parameters.is_feature_resource_tagging()
    {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this kernel's io_uring is too old for ecru: Linux 5.13 or newer is needed, 6.1 or newer is best",
    ))
}

/// Every operation that the driver submits to the kernel, and its name there.
const NEEDED: [(u8, &str); 9] = [
    (opcode::Recv::CODE, "IORING_OP_RECV"),
    (opcode::RecvMsg::CODE, "IORING_OP_RECVMSG"),
    (opcode::Read::CODE, "IORING_OP_READ"),
    (opcode::Write::CODE, "IORING_OP_WRITE"),
    (opcode::Readv::CODE, "IORING_OP_READV"),
    (opcode::Writev::CODE, "IORING_OP_WRITEV"),
    (opcode::Fsync::CODE, "IORING_OP_FSYNC"),
    (opcode::PollAdd::CODE, "IORING_OP_POLL_ADD"),
    (opcode::AsyncCancel::CODE, "IORING_OP_ASYNC_CANCEL"),
];

/// Tries the two system calls other than the one that has opened the ring. It asks what the kernel
/// supports, and carries out one operation that does nothing.
pub(super) fn probe(mut ring: IoUring) -> io::Result<()> {
    let mut known = Probe::new();
    ring.submitter().register_probe(&mut known).map_err(|error| explain(&error))?;
    require(|code| known.is_supported(code))?;
    let nothing = opcode::Nop::new().build();
    // SAFETY: the entry names no memory.
    let queued = unsafe { ring.submission().push(&nothing) };
    queued.map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(explain(&error)),
        }
    }
}

fn require(is_known: impl Fn(u8) -> bool) -> io::Result<()> {
    let Some((_, name)) = NEEDED.into_iter().find(|(code, _)| !is_known(*code)) else {
        return Ok(());
    };
    let text = format!(
        "this kernel's io_uring does not know {name}: Linux 5.13 or newer is needed, 6.1 or newer is best"
    );
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

/// Returns an error that says what was refused, the likely reason, and what to do.
pub(super) fn explain(error: &io::Error) -> io::Error {
    let (kind, text) = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => (io::ErrorKind::PermissionDenied, denied()),
        Some(libc::ENOSYS) => (
            io::ErrorKind::Unsupported,
            "the kernel is older than Linux 5.13 or built without io_uring, or a seccomp filter (a container's, as a rule) \
             hides it: use a newer kernel, or a filter that allows io_uring_setup, io_uring_enter and io_uring_register"
                .to_owned(),
        ),
        Some(libc::EINVAL) => (
            io::ErrorKind::Unsupported,
            "the kernel knows none of the modes that ecru can use: Linux 5.13 or newer is needed, 6.1 or newer is best"
                .to_owned(),
        ),
        Some(libc::ENOMEM) => (
            io::ErrorKind::OutOfMemory,
            "there is no memory for the smallest ring, or the limit on locked memory is spent: raise `ulimit -l` or the \
             container's memory limit, or use fewer workers"
                .to_owned(),
        ),
        Some(libc::EMFILE) => (
            io::ErrorKind::Other,
            "this process has reached its limit of open files, and each worker needs two for its \
             driver: raise `ulimit -n`, or close some"
                .to_owned(),
        ),
        Some(libc::ENFILE) => (
            io::ErrorKind::Other,
            "the whole system has reached its limit of open files: raise the sysctl fs.file-max, \
             or close some"
                .to_owned(),
        ),
        _ => (error.kind(), "ecru does not know this error; see io_uring_setup(2)".to_owned()),
    };
    io::Error::new(kind, format!("the kernel refuses io_uring ({error}): {text}"))
}

fn denied() -> String {
    let seccomp = "a seccomp filter forbids it, as those of Docker and containerd do by default: run the container with \
                   a profile that allows io_uring_setup, io_uring_enter and io_uring_register";
    let disabled =
        std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    match disabled.trim() {
        "0" => format!("the sysctl kernel.io_uring_disabled is 0, so {seccomp}"),
        "1" => "the sysctl kernel.io_uring_disabled is 1: only members of the group in kernel.io_uring_group may use it; \
                join that group, or set kernel.io_uring_disabled to 0"
            .to_owned(),
        "2" => "the sysctl kernel.io_uring_disabled is 2: no process may use it; set kernel.io_uring_disabled to 0".to_owned(),
        _ => format!("either the sysctl kernel.io_uring_disabled is not 0, or {seccomp}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(errno: i32) -> (io::ErrorKind, String) {
        let explained = explain(&io::Error::from_raw_os_error(errno));
        (explained.kind(), explained.to_string())
    }

    #[test]
    fn a_refusal_says_what_why_and_what_to_do() {
        let (kind, text) = text_of(libc::EPERM);
        assert_eq!(kind, io::ErrorKind::PermissionDenied);
        assert!(text.contains("io_uring") && text.contains("kernel.io_uring_disabled"), "{text}");
        let (kind, text) = text_of(libc::ENOSYS);
        assert_eq!(kind, io::ErrorKind::Unsupported);
        assert!(text.contains("seccomp") && text.contains("io_uring_setup"), "{text}");
        let (kind, text) = text_of(libc::ENOMEM);
        assert_eq!(kind, io::ErrorKind::OutOfMemory);
        assert!(text.contains("ulimit -l"), "{text}");
        let (_, text) = text_of(libc::EMFILE);
        assert!(text.contains("ulimit -n") && text.contains("os error 24"), "{text}");
    }

    #[test]
    fn an_operation_that_the_kernel_does_not_know_is_named() {
        require(|_| true).unwrap();
        let error = require(|code| code != opcode::Recv::CODE).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("IORING_OP_RECV"), "{error}");
    }

    #[test]
    fn each_mode_can_be_opened_here_and_is_what_was_asked_for() {
        for best in Mode::ALL {
            let (ring, mode) = open(8, best).unwrap();
            assert_eq!(mode, best, "the tests run on a kernel that knows every mode");
            assert_eq!(ring.params().is_setup_single_issuer(), mode == Mode::Deferred);
        }
    }
}
