use ecru_postgres::{Client, Connector, Error};
use ecru::sync::Pool;
use std::time::Duration;

type Clients = Pool<Client, Error>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Stores a round of reports. Either all of them are stored, or none.
fn store_all(clients: &Clients, reports: &[(&str, bool)]) -> Result<(), BoxError> {
    let mut client = clients.get()?; // waits while all clients are lent
    // It is prepared once on each connection, and kept.
    let insert = client.prepare_cached("INSERT INTO reports VALUES ($1, $2, now())")?;
    client.transaction(|transaction| {
        for (site, is_up) in reports {
            transaction.execute(&insert, &[site, is_up])?;
        }
        Ok(())
    })
} // the client goes back to the pool

fn main() -> Result<(), BoxError> {
    let config = std::env::var("DATABASE_URL")?.parse()?;
    ecru::run(|| {
        let clients: Clients = Connector::new(config).pool(8);
        let reports = [("example.org", true), ("example.com", false)];
        let limit = Duration::from_secs(10);
        match ecru::timeout(limit, || store_all(&clients, &reports)) {
            Ok(Ok(())) => println!("stored"),
            Ok(Err(error)) => println!("not stored: {error}"),
            Err(elapsed) => println!("not stored: {elapsed}"),
        }
        Ok(())
    })
}
