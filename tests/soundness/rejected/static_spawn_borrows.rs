//! The bug: a task of the run may outlive the function that spawned it, and read its dead local.

fn main() {
    ecru::run(|| {
        let text = String::from("gone");
        let reference = &text;
        ecru::spawn(move || reference.len());
    });
}
