//! Tests in which the kernel refuses a driver. Each runs in a process of its own, because it
//! restricts the process.

use crate::streams::{listen, pair};
use crate::support::{alone_with, ms, run_on};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};

/// Runs a test in a process of its own, for which the environment requests this driver.
fn alone(test: &str, driver: &str, body: impl FnOnce()) {
    alone_with(test, |command| _ = command.env("ECRU_DRIVER", driver), body);
}

/// The three system calls of io_uring.
pub(crate) const RINGS: [libc::c_long; 3] =
    [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// Makes these system calls fail with this errno, in this thread and in threads that it starts from
/// now on.
#[expect(unsafe_code, reason = "installs a seccomp filter, for which there is no safe call")]
pub(crate) fn forbid(calls: &[libc::c_long], errno: i32) {
    let instruction = |code: u32, jump_else: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: jump_else,
        k,
    };
    // The system call's number is at offset 0 of the filter's input.
    let mut program = vec![instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for call in calls {
        let number = u32::try_from(*call).unwrap();
        program.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, number));
        let refusal = libc::SECCOMP_RET_ERRNO | errno.cast_unsigned();
        program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, refusal));
    }
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW));
    let len = program.len().try_into().unwrap();
    let filter = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: the arguments are plain numbers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the program and the structure that names it outlive the call, which copies them.
    let installed =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
    assert_eq!(installed, 0, "{}", std::io::Error::last_os_error());
}

/// Returns the error of a task's first operation that has to wait.
fn first_error(workers: usize) -> std::io::Error {
    let (client, mut server) = pair();
    run_on(workers, || {
        let error = (&client).read(&mut [0; 4]).unwrap_err();
        // Everything else works: calls that need not wait, sleeps, other tasks.
        server.write_all(b"text").unwrap();
        let mut bytes = [0; 4];
        (&client).read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"text");
        ecru::scope(|s| s.spawn(|| ecru::sleep(ms(1))).join().unwrap().unwrap());
        let again = ecru::scope(|s| s.spawn(|| (&client).read(&mut bytes)).join().unwrap());
        assert_eq!(again.unwrap_err().to_string(), error.to_string());
        error
    })
}

/// - given: a process that insists on one driver by `ECRU_DRIVER`, and cannot have it
/// - when: it does its first IO that must wait
/// - then: an error says what was refused and what to do; calls that need no driver work, and a
///   temporary shortage does not disable the worker's IO for good
#[test]
fn net_28_uring_refused() {
    alone("refused::net_28_uring_refused", "uring", || {
        forbid(&[libc::SYS_io_uring_setup], libc::EPERM);
        for workers in [1, 2] {
            let error = first_error(workers);
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            let text = error.to_string();
            for part in ["io_uring", "kernel.io_uring_disabled", "seccomp", "io_uring_setup"] {
                assert!(text.contains(part), "{text}");
            }
        }
        // Plain threads need no driver.
        let (listener, _) = listen();
        assert!(ecru::timeout(ms(2), || listener.accept()).is_err());
    });
}

#[test]
fn net_28_uring_refused_because_it_is_hidden() {
    alone("refused::net_28_uring_refused_because_it_is_hidden", "uring", || {
        forbid(&[libc::SYS_io_uring_setup], libc::ENOSYS);
        let error = first_error(1);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(
            text.contains("io_uring") && text.contains("seccomp") && text.contains("5.13"),
            "{text}"
        );
    });
}

/// Newer kernels charge rings to the memory's owner and not to this limit. Older kernels refuse,
/// and then the text has to say so.
#[test]
fn net_28_uring_refused_for_want_of_locked_memory() {
    alone("refused::net_28_uring_refused_for_want_of_locked_memory", "uring", || {
        setrlimit(Resource::Memlock, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
        let (client, server) = pair();
        run_on(2, || {
            ecru::scope(|s| {
                let read = s.spawn(|| (&client).read(&mut [0; 4]));
                ecru::sleep(ms(2)).unwrap();
                (&server).write_all(b"text").unwrap();
                match read.join().unwrap() {
                    Ok(count) => assert_eq!(count, 4),
                    Err(error) => assert!(error.to_string().contains("ulimit -l"), "{error}"),
                }
            });
        });
    });
}

/// The driver's first operation while no descriptors are left, and one when there are descriptors
/// again.
fn want_of_descriptors(names: &str) {
    let (client, mut server) = pair();
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum }).unwrap();
    run_on(1, || {
        let spent: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        let text = (&client).read(&mut [0; 4]).unwrap_err().to_string();
        assert!(text.contains("ulimit -n") && text.contains(names), "{text}");
        // The refusal is not remembered for the worker.
        drop(spent);
        ecru::scope(|s| {
            let read = s.spawn(|| (&client).read(&mut [0; 4]));
            ecru::sleep(ms(2)).unwrap();
            server.write_all(b"text").unwrap();
            assert_eq!(read.join().unwrap().unwrap(), 4);
        });
    });
}

#[test]
fn net_28_uring_refused_for_want_of_descriptors() {
    let test = "refused::net_28_uring_refused_for_want_of_descriptors";
    alone(test, "uring", || want_of_descriptors("io_uring"));
}

/// The other driver needs descriptors as well.
#[test]
fn net_28_uring_refused_and_poll_too_for_want_of_descriptors() {
    let test = "refused::net_28_uring_refused_and_poll_too_for_want_of_descriptors";
    alone(test, "poll", || want_of_descriptors("epoll"));
}
