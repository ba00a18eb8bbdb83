//! The bug: the body frees what a running child reads.

fn main() {
    let mut text = String::from("borrowed");
    ecru::run(|| {
        ecru::scope(|s| {
            let child = s.spawn(|| text.len());
            text = String::new(); // frees the old one
            child.join()
        })
    })
    .ok();
}
