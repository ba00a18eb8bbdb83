//! Handles of several scopes, lent and moved; a set that other threads read; expressions that share
//! the caller's locals.

use ecru::{JoinError, JoinSet};

fn main() {
    ecru::run(|| {
        let mut words = vec![String::from("one")];
        ecru::scope(|s| {
            let outer = s.spawn(|| Ok::<_, JoinError>(words[0].as_str()));
            ecru::scope(|s| {
                let inner = s.spawn(|| Ok::<_, JoinError>(outer.name().is_none()));
                assert_eq!(ecru::zip((&outer, inner)).unwrap(), ("one", true));
            });
            let set = JoinSet::new(s);
            set.spawn(|| words[0].as_str());
            std::thread::scope(|threads| {
                let word = threads.spawn(|| set.join_next().unwrap().unwrap()).join().unwrap();
                assert_eq!(word, "one");
            });
        });
        let count = words.len();
        let (pushed, doubled) = ecru::join!(words.push(String::from("two")), count * 2);
        pushed.unwrap();
        assert_eq!((doubled.unwrap(), words.len()), (2, 2));
    });
}
