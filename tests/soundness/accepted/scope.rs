//! Allowed counterparts of the rejected programs: children that borrow from outside the scope, and
//! local children with an `Rc`.

use std::rc::Rc;

fn main() {
    let text = String::from("borrowed");
    let mut count = 0;
    ecru::run(|| {
        let shared = Rc::new(2);
        ecru::scope(|s| {
            let read = s.spawn(|| text.len());
            let again = s.spawn(|| text.len());
            s.spawn(|| count += 1);
            let local = Rc::clone(&shared);
            let local = s.spawn_local(move || *local);
            assert_eq!(read.join().unwrap() + again.join().unwrap() + local.join().unwrap(), 18);
        });
        count += 1;
    });
    assert_eq!((count, text.len()), (2, 8));
}
