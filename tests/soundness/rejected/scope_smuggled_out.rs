//! The bug: children spawned through a scope that has ended would never be awaited.

fn main() {
    ecru::run(|| {
        let mut smuggled = None;
        ecru::scope(|s| smuggled = Some(s));
        let local = 1;
        smuggled.map(|s| s.spawn(|| local));
    });
}
