//! `cargo run --release -p gears`: the page, and how long it took.

use std::time::Instant;

fn main() -> std::io::Result<()> {
    let began = Instant::now();
    ecru::run(|| gears::write(&mut ecru::io::stdout()))?;
    println!("\nall of it in {:.2} s", began.elapsed().as_secs_f64());
    Ok(())
}
