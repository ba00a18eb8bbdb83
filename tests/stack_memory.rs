//! The memory cost of stacks, and that memory is returned. This is a single test, because it
//! measures the memory of the whole process.

#![cfg(not(ecru_baton))]

mod common;

use common::resident_bytes;
use ecru::coroutine::{Coroutine, StackPool, Yielder, remaining_stack};

const PAGE: usize = 4096;
/// The default of an optimized build. A stack of a debug build spans more page tables.
const SIZE: usize = 192 * 1024;

/// Returns the bytes of page tables of this process.
fn page_tables() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmPTE:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

type Live = Coroutine<(), (), ()>;

/// Starts `count` coroutines, which use their stacks until `left` bytes remain, and suspend.
fn start(pool: &StackPool, count: usize, left: usize) -> Vec<Live> {
    fn touch(left: usize) {
        let room = std::hint::black_box([1_u8; 512]);
        if remaining_stack() > left {
            touch(left);
        }
        std::hint::black_box(room);
    }
    let body = move |yielder: &Yielder<(), ()>, ()| {
        if left > 0 {
            touch(left);
        }
        yielder.suspend(());
    };
    let coroutine = || {
        let coroutine = Coroutine::with_stack(pool.take().unwrap(), body);
        coroutine.resume(());
        coroutine
    };
    (0..count).map(|_| coroutine()).collect()
}

fn finish(live: &[Live]) {
    for coroutine in live {
        coroutine.resume(());
    }
}

/// An idle coroutine costs a page and no mapping. That memory is returned, and stacks in use are
/// not disturbed.
#[test]
fn memory_is_taken_by_the_page_and_given_back() {
    // A hundred thousand live coroutines take about a page and an eighth each, and few mappings.
    let pool = StackPool::new(SIZE).unwrap();
    let (count, before, mapped, tables) = (100_000, resident_bytes(), mappings(), page_tables());
    let live = start(&pool, count, 0);
    let each = (resident_bytes() - before) / count;
    let tables_each = (page_tables() - tables) / count;
    eprintln!("{each} bytes resident and {tables_each} of page tables each");
    // In a debug build, `suspend` looks for initializers of thread-locals, which takes more stack.
    let most = if cfg!(debug_assertions) { 2 * PAGE } else { PAGE + 200 };
    assert!(each < most, "{each} bytes each");
    assert!(tables_each < 600, "{tables_each} bytes of page tables each");
    assert!(mappings() < mapped + 60, "{} mappings", mappings());

    // They end, and all memory is returned, without dropping the pool.
    finish(&live);
    drop(live);
    assert_eq!((pool.statistics().live, pool.statistics().idle), (0, count));
    pool.trim();
    assert_eq!(pool.statistics().idle, 0);
    assert!(resident_bytes() < before + (8 << 20), "{} more", resident_bytes() - before);
    assert!(page_tables() < tables + (1 << 20), "{} more", page_tables() - tables);

    // Some coroutines went deep and are now idle, while their neighbours are in use. Only the
    // memory below their top page is returned.
    let pool = StackPool::new(64 * 1024).unwrap();
    let deep = start(&pool, 2000, 16 * 1024);
    let with_all = resident_bytes();
    let (mut used, mut idle) = (Vec::new(), Vec::new());
    for (index, coroutine) in deep.into_iter().enumerate() {
        let list = if index % 2 == 0 { &mut used } else { &mut idle };
        list.push(coroutine);
    }
    finish(&idle);
    drop(idle);
    assert_eq!(pool.statistics().live, 1000);
    pool.trim();
    let freed = with_all - resident_bytes();
    assert!(freed > 900 * 40 * 1024, "{freed} bytes freed");
    let again = resident_bytes();
    pool.trim();
    assert!(resident_bytes() <= again + PAGE, "the second trim has nothing to do");
    finish(&used);
    assert_eq!(pool.statistics().live, 1000);
    drop(used);

    // The slots are reused, with their guards.
    let live = start(&pool, 3000, 32 * 1024);
    assert_eq!(pool.statistics().live, 3000);
    drop(live);
    drop(pool);
    assert!(resident_bytes() < before + (16 << 20), "{} more", resident_bytes() - before);
}
