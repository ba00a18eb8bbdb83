use ecru::sync::{Latch, Mutex};

fn transfer(from: &Mutex<i64>, to: &Mutex<i64>, cents: i64, checked: &Latch) {
    let mut from = from.lock();
    checked.count_down();
    checked.wait().unwrap(); // until both payments are approved
    let mut to = to.lock();
    *from -= cents;
    *to += cents;
}

fn main() {
    let current = Mutex::new(500).named("current");
    let savings = Mutex::new(100).named("savings");
    let checked = Latch::new(2);
    ecru::run(|| {
        ecru::scope(|s| {
            s.builder().name("rent").spawn(|| transfer(&current, &savings, 50, &checked));
            s.builder().name("salary").spawn(|| transfer(&savings, &current, 20, &checked));
            s.builder().name("report").spawn(|| {
                checked.wait().unwrap();
                println!("{} cents", *current.lock());
            });
        });
    });
}
