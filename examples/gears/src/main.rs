//! `cargo run --release -p gears` prints the page and the time that it took.

use std::time::Instant;

fn main() -> std::io::Result<()> {
    let began = Instant::now();
    ecru::run(|| gears::write(&mut ecru::io::stdout()))?;
    println!("\nall of it in {:.2} s", began.elapsed().as_secs_f64());
    Ok(())
}
