use std::time::Duration;

fn render(page: u32) -> String {
    std::thread::sleep(Duration::from_secs(1)); // a library that blocks
    format!("page {page}")
}

fn main() -> std::io::Result<()> {
    let runtime = ecru::Runtime::builder().workers(1).record(1 << 20).build()?;
    runtime.run(|| {
        ecru::scope(|s| {
            s.builder().name("renderer").spawn(|| {
                for page in 0.. {
                    println!("{}", render(page));
                    ecru::yield_now().unwrap();
                }
            });
            s.builder().name("heartbeat").spawn(|| {
                while ecru::sleep(Duration::from_millis(100)).is_ok() {}
            });
        });
    });
    Ok(())
}
