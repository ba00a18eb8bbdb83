//! The bug: a view with shorter-lived results would turn a borrow of a local into a `'static` one.

use ecru::JoinSet;

fn put_in<'a: 'scope, 'scope>(set: &JoinSet<'scope, '_, &'a str>, word: &'a str) {
    set.spawn(move || word);
}

fn main() {
    ecru::run(|| {
        let local = String::from("local");
        let escaped: &'static str = ecru::scope(|s| {
            let set = JoinSet::<&'static str>::new(s);
            put_in(&set, &local);
            set.join_next().unwrap().unwrap()
        });
        drop(local);
        println!("{escaped}");
    });
}
