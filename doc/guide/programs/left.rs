use std::time::Duration;

fn main() {
    ecru::run(|| {
        for _ in 0..3 {
            drop(ecru::spawn(|| ecru::sleep(Duration::from_secs(3600))));
        }
    });
}
