//! Models of a caller that waits for places and of children that give places back.

use loom::thread;
use std::sync::Arc;

use super::{Place, Window};
use crate::base::sync::Checked;

/// Does the work of a child while it holds the only place.
fn work(shared: &(Window, Checked)) {
    let place = Place(&shared.0);
    shared.1.add_one();
    drop(place);
}

#[test]
fn with_one_place_children_take_turns_and_the_caller_gets_through() {
    loom::model(|| {
        let shared = Arc::new((Window::new(1), Checked::new(0)));
        let threads = [(); 2].map(|()| {
            shared.0.enter();
            let shared = Arc::clone(&shared);
            thread::spawn(move || work(&shared))
        });
        shared.0.enter();
        assert_eq!(shared.1.get_alone(), 2);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
