use ecru_postgres::{Client, Error};

fn store(client: &mut Client, site: &str, is_up: bool) -> Result<(), Error> {
    let insert = "INSERT INTO reports (site, is_up, time) VALUES ($1, $2, now())";
    client.execute(insert, &[&site, &is_up]).map(drop)
}

/// The share of reports of the last day that say that the site was up.
fn uptime(client: &mut Client, site: &str) -> Result<f64, Error> {
    let query = "SELECT avg(is_up::int)::float8 FROM reports
                 WHERE site = $1 AND time > now() - interval '1 day'";
    Ok(client.query_one(query, &[&site])?.get(0))
}

fn main() -> Result<(), Error> {
    ecru::run(|| {
        let url = std::env::var("DATABASE_URL").expect("DATABASE_URL has a postgres:// address");
        let mut client = ecru_postgres::connect(&url)?;
        client.batch_execute(
            "CREATE TABLE IF NOT EXISTS reports (site text, is_up bool, time timestamptz)",
        )?;
        store(&mut client, "example.org", true)?;
        println!("{:.1} %", 100.0 * uptime(&mut client, "example.org")?);
        Ok(())
    })
}
