//! A cache that keeps an old value: a reader that misses reads the database, and stores what it has
//! read after a writer has changed the database and removed the key from the cache.

use super::{Form, is_found, passes};
use ecru::sync::Mutex;
use ecru::{sim, sleep};
use std::time::Duration;

#[derive(Default)]
struct Cache {
    value: Option<u32>,
    /// How often the key was removed.
    removals: u32,
}

fn latency() {
    let _ = sleep(Duration::from_micros(sim::random_u64() % 1_000));
}

fn read(form: Form, cache: &Mutex<Cache>, database: &Mutex<u32>) {
    let (value, removals) = {
        let cache = cache.lock();
        (cache.value, cache.removals)
    };
    if value.is_none() {
        latency();
        let read = *database.lock();
        latency();
        let mut cache = cache.lock();
        if form == Form::Buggy || cache.removals == removals {
            cache.value = Some(read);
        }
    }
}

fn write(cache: &Mutex<Cache>, database: &Mutex<u32>, value: u32) {
    latency();
    *database.lock() = value;
    let mut cache = cache.lock();
    cache.value = None;
    cache.removals += 1;
}

fn program(form: Form) {
    let (cache, database) = (Mutex::new(Cache::default()), Mutex::new(0));
    ecru::scope(|s| {
        for _ in 0..2 {
            s.builder().name("reader").spawn(|| read(form, &cache, &database));
        }
        s.builder().name("writer").spawn(|| write(&cache, &database, 1));
    });
    let (cached, stored) = (cache.into_inner().value, database.into_inner());
    assert!(cached.is_none_or(|value| value == stored), "the cache has an old value for ever");
}

#[test]
fn stale_cache_is_found() {
    is_found(program, &["an old value for ever", "stale_cache.rs", "and how each ended"]);
}

#[test]
fn stale_cache_is_repaired_slow() {
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("cache that keeps an old value", program);
