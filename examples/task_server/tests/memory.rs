//! The memory of a simulated server stays the same, however many clients come one after another.
//!
//! The allocator is counted, so this test has a process of its own.
#![expect(unsafe_code, reason = "an allocator that counts")]

use ecru::net::TcpListener;
use ecru::sim::{self, Simulation};
use ecru::sleep;
use std::alloc::{GlobalAlloc, Layout, System};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering::SeqCst};
use std::time::Duration;
use task_server::load;
use task_server::server::Server;
use task_server::stage::Stage;

const PORT: u16 = 7000;

const WAVES: usize = 8;
const CLIENTS: u64 = 200;
const MESSAGES: u64 = 5;

struct Counting;

/// The bytes that have been allocated and not freed.
static LIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: everything is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as isize, SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_add(size as isize - layout.size() as isize, SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the resident bytes of this process, which include the stacks of tasks.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Runs waves of clients. Returns the bytes that are allocated, and those that are resident, after
/// each.
fn waves() -> Vec<(isize, usize)> {
    let server = sim::host("server", || {
        let listener = TcpListener::bind(("0.0.0.0", PORT))?;
        Server::new(Stage::Pipelined, 1.0).serve(&listener)
    });
    let address = SocketAddr::new(server.addr(), PORT);
    let after = Mutex::new(Vec::with_capacity(WAVES));
    for _ in 0..WAVES {
        // All waves have the same seeds, so the server's cache knows all answers after the first.
        load::run(address, 1, CLIENTS, MESSAGES).unwrap();
        sleep(Duration::from_secs(10)).unwrap();
        sim::settle();
        after.lock().unwrap().push((LIVE.load(SeqCst), resident()));
    }
    after.into_inner().unwrap()
}

#[test]
fn memory_stays_flat_slow() {
    let before = LIVE.load(SeqCst);
    let report = Simulation::new(1).max_steps(u64::MAX).run(waves);
    let steps = report.steps as isize;
    println!("{steps} steps, {:?}", report.elapsed);
    let after = report.unwrap();
    for (live, resident) in &after {
        println!("{live} bytes allocated, {resident} resident");
    }
    // A step takes three to four bytes of the trace, a task four bytes, and what is sent and received
    // takes room in the timeline, all in vectors that double: 50 bytes a step as measured. 3 kB left of
    // each of the connections would be more than that.
    let grown = after[WAVES - 1].0 - after[1].0;
    assert!(grown < 64 * steps, "{grown} bytes in {steps} steps");
    // What the run leaves is a few values of the process.
    let left = LIVE.load(SeqCst) - before;
    assert!(left < 64 << 10, "{left} bytes are left");
}
