//! The bug: a coroutine would be resumed on a thread that it does not belong to.

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
