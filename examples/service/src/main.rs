//! Runs the service until Ctrl-C or SIGTERM.

use std::io;
use std::process::ExitCode;

use ecru::signal::{self, Signal, SignalKind};
use ecru::source;
use service::Config;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::prelude::*;

fn main() -> ExitCode {
    tracing_subscriber::registry()
        .with(EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
        .with(ecru_tracing::layer())
        .with(tracing_subscriber::fmt::layer())
        .init();
    if let Err(error) = run() {
        tracing::error!(%error, "the service cannot run");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run() -> io::Result<()> {
    let config = Config::read(|name| std::env::var_os(name))?;
    ecru::run(|| {
        let listener = config.listen()?;
        // From here on a signal stops the service in order.
        let stop = source::race([Signal::new(SignalKind::terminate())?, signal::ctrl_c()?]);
        tracing::info!(address = %listener.local_addr()?, "listening");
        let served = service::serve(&listener, &config, stop)?;
        tracing::info!(connections = served.connections(), "the end");
        Ok(())
    })
}
