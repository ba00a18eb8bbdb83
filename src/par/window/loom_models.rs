//! Models of a caller that waits for places and of children that give places back.

use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

use super::{Place, Window};

struct Work(Arc<(Window, UnsafeCell<u32>)>);
unsafe impl Send for Work {}

impl Work {
    /// Does the work of a child while it holds the only place.
    fn run(self) {
        let place = Place(&self.0.0);
        self.0.1.with_mut(|running| unsafe { *running += 1 });
        drop(place);
    }
}

#[test]
fn with_one_place_children_take_turns_and_the_caller_gets_through() {
    loom::model(|| {
        let shared = Arc::new((Window::new(1), UnsafeCell::new(0)));
        let threads = [(); 2].map(|()| {
            shared.0.enter();
            let work = Work(Arc::clone(&shared));
            thread::spawn(move || work.run())
        });
        shared.0.enter();
        shared.1.with_mut(|running| assert_eq!(unsafe { *running }, 2));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
