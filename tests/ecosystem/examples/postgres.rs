//! `postgres-protocol` over ecru: two slow queries at once, on the same thread, against a server
//! started by the example.

use std::io;
use std::time::Instant;

use ecru_ecosystem::postgres_over_ecru::Postgres;
use ecru_ecosystem::servers::{self, PASSWORD, USER};

fn main() -> io::Result<()> {
    let Some(server) = servers::postgres() else { return Ok(()) };
    ecru::run(|| {
        let begun = Instant::now();
        ecru::try_scope(|s| {
            for number in [6, 7] {
                let address = server.address();
                s.spawn(move || {
                    let mut postgres = Postgres::connect(address, USER, PASSWORD)?;
                    let rows = postgres.query(&format!("SELECT {number} * 7, pg_sleep(0.1)"))?;
                    println!("{number} times 7 is {}", rows[0][0].as_deref().unwrap_or("NULL"));
                    Ok::<_, io::Error>(())
                });
            }
            Ok(())
        })?;
        println!("both took 0.1 s, together {:.1} s", begun.elapsed().as_secs_f64());
        Ok(())
    })
}
