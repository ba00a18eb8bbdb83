//! The bug: the coroutine would continue with a reference into a frame that has ended.

use ecru::coroutine::Generator;

fn letters() -> Generator<char> {
    let text = String::from("gone");
    let reference = &text;
    Generator::new(move |yielder| reference.chars().for_each(|c| yielder.suspend(c)))
}

fn main() {
    letters().next();
}
