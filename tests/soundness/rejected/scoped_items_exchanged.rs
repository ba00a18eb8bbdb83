//! The bug: the outer handle would lead to the generator of the inner one, which has ended.

use ecru::coroutine::generate;

fn main() {
    generate(
        |yielder| (0..9).for_each(|n| yielder.suspend(n)),
        |mut outer| {
            generate(
                |yielder| (10..19).for_each(|n| yielder.suspend(n)),
                |mut inner| std::mem::swap(&mut outer, &mut inner),
            );
            outer.next();
        },
    );
}
