use ecru::par;
use ecru::sync::Pool;
use ecru_postgres::{Client, Connector, Error};
use std::time::Duration;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Checks each site of the table, and stores what it finds. Returns how many there are.
fn check_all(clients: &Pool<Client, Error>) -> Result<usize, BoxError> {
    let rows = clients.get()?.query("SELECT site FROM sites", &[])?;
    let sites: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let stored = par::map_buffered(50, &sites, |site| {
        let limit = Duration::from_secs(5);
        let is_up = ecru::try_timeout(limit, || ecru_guide::check(site)).is_ok();
        let update = "UPDATE sites SET is_up = $2 WHERE site = $1";
        Ok::<_, BoxError>(clients.get()?.execute(update, &[site, &is_up])?)
    });
    stored.into_iter().collect::<Result<Vec<u64>, _>>().map(|stored| stored.len())
}

fn main() -> Result<(), BoxError> {
    let builder = ecru::Runtime::builder().cancel_on_ctrl_c(true).cancel_on_terminate(true);
    builder.build()?.run(|| {
        let config = std::env::var("DATABASE_URL")?.parse()?;
        let clients = Connector::new(config).pool(8);
        println!("{} sites", check_all(&clients)?);
        Ok(())
    })
}
