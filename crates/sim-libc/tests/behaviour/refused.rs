//! Files, sockets and processes of the machine that a simulation uses.
#![expect(unsafe_code, reason = "calls functions of libc")]

use std::io;
use std::net::ToSocketAddrs;
use std::process::Command;
use std::{fs, net};

use ecru::sim::{Failure, Simulation};

use super::simulated;

/// A call of std, and the function of libc that it comes down to.
type Call = (&'static str, fn() -> io::Result<()>);

const CALLS: [Call; 17] = [
    ("open64", || fs::File::open("/dev/urandom").map(drop)),
    ("open64", || fs::write("/none/file", "text")),
    ("opendir", || fs::read_dir("/").map(drop)),
    ("statx", || fs::metadata("/").map(drop)),
    ("statx", || fs::symlink_metadata("/").map(drop)),
    ("mkdir", || fs::create_dir("/none/directory")),
    ("rmdir", || fs::remove_dir("/none/directory")),
    ("unlink", || fs::remove_file("/none/file")),
    ("rename", || fs::rename("/none/file", "/none/other")),
    ("readlink", || fs::read_link("/proc/self").map(drop)),
    ("realpath", || fs::canonicalize("/").map(drop)),
    ("socket", || net::TcpListener::bind("127.0.0.1:0").map(drop)),
    ("socket", || net::UdpSocket::bind("127.0.0.1:0").map(drop)),
    ("socketpair", || std::os::unix::net::UnixStream::pair().map(drop)),
    ("getaddrinfo", || "localhost:1".to_socket_addrs().map(drop)),
    ("pipe2", || io::pipe().map(drop)),
    ("posix_spawnp", || Command::new("true").spawn().map(drop)),
];

/// - given: a task of a simulation
/// - when: it calls `std::fs`, `std::net`, `std::process` or `std::io::pipe`, also for `/dev/urandom`
/// - then: the call is refused, and the run fails as `Foreign`: the text names the call, its path and
///   the task
#[test]
fn libc_70_files_sockets_and_processes_in_a_simulation() {
    for (name, call) in CALLS {
        let report = Simulation::new(1).run(move || {
            ecru::scope(|s| {
                let task = s.builder().name("caller").spawn(call);
                assert!(task.join().unwrap().is_err(), "{name}");
            });
        });
        let Err(Failure::Foreign { call }) = &report.result else { panic!("{name}: {report}") };
        for part in [&format!("called `{name}`")[..], "'caller'", "refused.rs", "`std::"] {
            assert!(call.contains(part), "{part:?} is not in {call}");
        }
    }
    let report = Simulation::new(1).run(|| fs::File::open("/dev/urandom").map(drop));
    assert!(report.to_string().contains("`open64` for \"/dev/urandom\""), "{report}");
}

/// - given: a program with this crate
/// - when: code outside of simulations makes the same calls, also while a simulation runs
/// - then: they are made
#[test]
fn libc_71_the_same_calls_outside() {
    let real = || {
        assert!(fs::metadata("/").unwrap().is_dir() && fs::read_dir("/").unwrap().count() > 0);
        assert!(fs::read("/proc/self/cmdline").is_ok());
        net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(Command::new("true").status().unwrap().success());
    };
    std::thread::scope(|s| {
        let simulations = s.spawn(|| (0..10).for_each(|seed| simulated(seed, || ())));
        real();
        simulations.join().unwrap();
    });
    ecru::run(|| ecru::unblock(real));
}

/// - given: ecru's own calls for files, sockets and names, a dump with stack traces, and a panic that
///   is reported
/// - when: a simulation makes them
/// - then: none is refused, although ecru needs the system for some of them
#[test]
fn libc_72_calls_of_ecru_itself() {
    simulated(1, || {
        use std::io::Write;
        let mut file = ecru::fs::File::create("file").unwrap();
        file.write_all(b"text").unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4);
        assert!(ecru::fs::metadata("/tmp").unwrap().is_dir());
        ecru::fs::copy("file", "other").unwrap();
        assert_eq!(ecru::fs::read_dir(".").unwrap().count(), 2);
        let listener = ecru::net::TcpListener::bind("localhost:80").unwrap();
        let fd = std::os::fd::AsFd::as_fd(&listener);
        assert!(std::os::fd::AsRawFd::as_raw_fd(&fd) > 0);
        ecru::scope(|s| {
            let waits = s.spawn(|| listener.accept().is_err());
            ecru::sim::settle();
            let tree = ecru::RuntimeHandle::current().dump();
            assert!(format!("{tree:#}").contains("accept"), "{tree:#}");
            waits.cancel();
            let panics = s.spawn(|| panic!("on purpose"));
            assert!(panics.join().is_err());
        });
    });
}

/// - given: `clock_gettime` and `getrandom` as system calls by libc's `syscall`, and `arc4random`,
///   `arc4random_buf` and `arc4random_uniform`
/// - when: a simulation calls them
/// - then: they show the virtual time, and draw what the seed decides; elsewhere they are real
#[test]
fn libc_73_other_ways_to_the_time_and_to_randomness() {
    unsafe extern "C" {
        fn arc4random() -> u32;
        fn arc4random_buf(buffer: *mut libc::c_void, length: usize);
        fn arc4random_uniform(bound: u32) -> u32;
    }
    let now = |clock: libc::clockid_t| {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the place is valid.
        let done = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) };
        assert_eq!(done, 0);
        time.tv_sec
    };
    let draw = || {
        let mut bytes = [0_u8; 8];
        // SAFETY: it has room for eight bytes.
        unsafe { arc4random_buf(bytes.as_mut_ptr().cast(), 8) };
        // SAFETY: it has no preconditions.
        let any = unsafe { arc4random() };
        // SAFETY: it has no preconditions.
        let below = unsafe { arc4random_uniform(10) };
        assert!(below < 10);
        (u64::from_ne_bytes(bytes), any, below)
    };
    let run = |seed| {
        simulated(seed, || {
            let begun = (now(libc::CLOCK_REALTIME), now(libc::CLOCK_MONOTONIC));
            ecru::sleep(std::time::Duration::from_secs(60)).unwrap();
            let passed = now(libc::CLOCK_MONOTONIC) - begun.1;
            (begun.0, passed, draw(), draw())
        })
    };
    let first = run(1);
    assert_eq!((first.0, first.1), (946_684_800, 60));
    assert_ne!(first.2, first.3);
    assert_eq!(run(1), first);
    assert_ne!(run(2), first);
    assert!(now(libc::CLOCK_REALTIME) > 1_700_000_000 && draw() != draw());
}
