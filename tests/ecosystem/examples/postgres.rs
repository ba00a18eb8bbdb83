//! PostgreSQL by `ecru-postgres`: two slow queries at once, on the same thread, by a pool, against a
//! server started by the example.

use std::time::Instant;

use ecru_ecosystem::servers::{self, PASSWORD, USER};
use ecru_postgres::{Connector, Error, tokio_postgres::Config};

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let Some(server) = servers::postgres() else { return Ok(()) };
    ecru::run(|| {
        let mut config = Config::new();
        config.host("127.0.0.1").port(server.address().port());
        config.user(USER).password(PASSWORD).dbname("postgres");
        let pool = Connector::new(config).pool(2);
        let begun = Instant::now();
        for result in ecru::par::map([6, 7], |number: i32| {
            let mut client = pool.get().map_err(std::io::Error::from)?;
            let row = client.query_one("SELECT $1 * 7, pg_sleep(0.1)::text", &[&number])?;
            println!("{number} times 7 is {}", row.get::<_, i32>(0));
            Ok::<_, Error>(())
        }) {
            result?;
        }
        println!("both took 0.1 s, together {:.1} s", begun.elapsed().as_secs_f64());
        Ok(())
    })
}
