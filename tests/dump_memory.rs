//! The memory that dumps take: bounded, whatever the number of tasks is.
//!
//! The allocator is counted, so each test has a process of its own.
#![cfg(not(ecru_baton))]
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::pending;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicIsize, Ordering::SeqCst};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use ecru::{Runtime, RuntimeHandle, channel};

mod common;

use common::{OnDrop, Watchdog, alone, await_workers, forever, is_child, start_again, until};

/// With two to the power of this many bytes, a dump of 5,000 tasks is made.
const ENOUGH: u32 = 22;

struct Counting;

/// The number of bytes that have not been freed, and the most that these were.
static BYTES: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

fn count(change: isize) {
    let now = BYTES.fetch_add(change, SeqCst) + change;
    PEAK.fetch_max(now, SeqCst);
}

// SAFETY: everything is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks may exist for a moment.
        count(size.cast_signed());
        // SAFETY: the caller's promise is passed on.
        let new = unsafe { System.realloc(block, layout, size) };
        count(-layout.size().cast_signed());
        new
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns by how many bytes the memory of the process has grown at most while `body` ran.
fn growth(body: impl FnOnce()) -> usize {
    let before = BYTES.load(SeqCst);
    PEAK.store(before, SeqCst);
    body();
    usize::try_from(PEAK.load(SeqCst) - before).unwrap_or(0)
}

/// Returns what the text, the JSON and the search for leaks of a dump of `count` tasks take. A
/// third of them waits for items, a third has futures, and the others have not begun.
fn growths(count: usize) -> [usize; 3] {
    Runtime::builder().workers(2).build().unwrap().run(|| {
        let (_sender, receiver) = channel::bounded::<u32>(1);
        ecru::scope(|s| {
            for _ in 0..count / 3 {
                s.spawn_when(receiver.clone(), drop);
                s.builder().name("future").spawn_future(pending::<()>());
            }
            let has_begun = || {
                let metrics = ecru::diag::metrics();
                metrics.waiting.values().sum::<usize>() >= count / 3
            };
            until(has_begun);
            for _ in 0..count / 3 {
                s.builder().name("unstarted").spawn(|| ());
            }
            let handle = RuntimeHandle::current();
            let warm = handle.dump().to_string();
            eprintln!("{}", warm.lines().next().unwrap());
            let text = growth(|| assert!(format!("{:#}", handle.dump()).contains("future")));
            let json = growth(|| assert!(handle.dump().to_json().contains("future")));
            let leaks = growth(|| drop(handle.find_leaks()));
            s.cancel();
            [text, json, leaks]
        })
    })
}

/// The memory of a dump does not depend on the number of tasks, beyond a limit.
#[test]
fn dumps_of_many_tasks_take_bounded_memory_slow() {
    alone("dumps_of_many_tasks_take_bounded_memory_slow", || {
        let _watchdog = Watchdog::new();
        // For a trial by hand: a million.
        let many = std::env::var("ECRU_TEST_TASKS").map_or(200_000, |text| text.parse().unwrap());
        let (few, many) = (growths(100_000), growths(many));
        eprintln!("text, json, leaks: {few:?}, {many:?}");
        for (few, many) in few.into_iter().zip(many) {
            assert!(many < few + few / 4, "{many} after {few}");
            // Most of it is room that a dump looks for and does not use.
            assert!(many < 128 << 20, "{many}");
        }
    });
}

/// Returns how many bytes of address space this process has.
fn address_space() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').next().unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

/// Asks for a dump in each way, with so many more bytes of address space.
fn ask_with(more: u64) {
    let socket = std::env::temp_dir().join(format!("ecru-limit-{}.sock", std::process::id()));
    let _removed = OnDrop(|| drop(std::fs::remove_file(&socket)));
    let runtime = Runtime::builder().workers(2).inspect(&socket).build().unwrap();
    runtime.run(|| {
        await_workers(2);
        ecru::scope(|s| {
            for _ in 0..5_000 {
                s.builder().name("future").spawn_future(pending::<()>());
            }
            for _ in 0..50 {
                s.builder().name("stack").spawn(forever);
            }
            let all_wait = || ecru::diag::metrics().waiting.values().sum::<usize>() >= 5_050;
            until(all_wait);
            // The thread that may block exists from here on.
            ecru::unblock(|| ());
            let before = getrlimit(Resource::As);
            let limit = Rlimit { current: Some(address_space() + more), ..before };
            setrlimit(Resource::As, limit).unwrap();
            let handle = RuntimeHandle::current();
            let tree = handle.dump();
            eprintln!("dump: {} tasks, {} bytes", tree.tasks().count(), tree.to_string().len());
            drop(tree);
            let answer = ecru::unblock(|| {
                let mut client = UnixStream::connect(&socket)?;
                client.write_all(b"ecru/1 tasks\n")?;
                std::io::read_to_string(client)
            });
            eprintln!("inspect: {:?} bytes", answer.map(|answer| answer.len()));
            let leaks = handle.find_leaks();
            eprintln!("leaks: {} tasks", leaks.tasks().count());
            eprintln!("stacks: {} bytes", format!("{leaks:#}").len());
            setrlimit(Resource::As, before).unwrap();
            s.cancel();
        });
    });
}

/// Where memory is limited, dumps, requests and searches end: with fewer tasks, or with the
/// process, as Rust's rule for allocations that fail has it. None of them hangs.
#[test]
fn dumps_under_a_memory_limit_slow() {
    const NAME: &str = "dumps_under_a_memory_limit_slow";
    if is_child(NAME) {
        // Aborts a process that hangs.
        let _watchdog = Watchdog::new();
        return ask_with(std::env::var("ECRU_TEST_MORE").unwrap().parse().unwrap());
    }
    for shift in [0, 12, 16, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 30] {
        let more = (1_u64 << shift).to_string();
        let mut command = start_again(NAME);
        // Each arena of the allocator has room of its own.
        command.env("ECRU_TEST_MORE", more).env("MALLOC_ARENA_MAX", "1");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        eprintln!("{shift}: {}\n{said}", output.status);
        let is_rule = said.contains("memory allocation of ") && shift < 30;
        assert!(!said.contains(" hangs;"), "{shift}: {said}");
        assert!(output.status.success() || is_rule, "{shift}: {}\n{said}", output.status);
        assert!(shift < ENOUGH || said.contains("dump: "), "{shift}: {said}");
    }
}
