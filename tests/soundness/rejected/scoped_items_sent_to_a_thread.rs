//! The bug: a coroutine would be resumed on another thread than its own.

use ecru::coroutine::generate;

fn main() {
    generate(
        |yielder| (0..9).for_each(|n| yielder.suspend(n)),
        |mut items| {
            std::thread::scope(|s| {
                s.spawn(|| items.next());
            });
        },
    );
}
