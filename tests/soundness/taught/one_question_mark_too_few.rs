//! The mistake: `join` returns the task's result inside its own.
//! What to do: a second `?`, after that of `join`.

use std::io;

fn read() -> io::Result<u32> {
    ecru::scope(|s| {
        let reading = s.spawn(|| Ok::<u32, io::Error>(7));
        let number: u32 = reading.join()?;
        Ok(number)
    })
}

fn main() {
    ecru::run(read).unwrap();
}
