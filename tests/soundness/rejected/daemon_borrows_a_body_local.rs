//! The bug: a daemon outlives the body, and would read a dead local until it is cancelled.

fn main() {
    ecru::run(|| {
        ecru::scope(|s| {
            let message = String::from("dead by then");
            let reference = &message;
            s.spawn_daemon(move || println!("{reference}"));
        });
    });
}
