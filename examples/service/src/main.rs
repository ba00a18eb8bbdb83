//! Runs the service until Ctrl-C or SIGTERM.

use std::io;

use ecru::net::TcpListener;
use ecru::signal::{self, Signal, SignalKind};
use ecru::source;
use service::Config;
use tracing_subscriber::prelude::*;

fn main() -> io::Result<()> {
    let level = tracing_subscriber::EnvFilter::try_from_default_env();
    tracing_subscriber::registry()
        .with(level.unwrap_or_else(|_| "info".into()))
        .with(ecru_tracing::layer())
        .with(tracing_subscriber::fmt::layer())
        .init();
    let config = Config::from_env()?;
    ecru::run(|| {
        let listener = TcpListener::bind(&config.listen)?;
        // From here on a signal stops the service in order.
        let stop = source::race([Signal::new(SignalKind::terminate())?, signal::ctrl_c()?]);
        tracing::info!(address = %listener.local_addr()?, "listening");
        let served = service::serve(&listener, &config, stop)?;
        tracing::info!(connections = served.connections(), "the end");
        Ok(())
    })
}
