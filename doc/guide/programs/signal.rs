use ecru::signal::SignalKind;
use std::time::Duration;

fn main() -> std::io::Result<()> {
    let runtime = ecru::Runtime::builder()
        .name("monitor")
        .dump_on_signal(SignalKind::user_defined1()) // kill -USR1 PID
        .watchdog(Duration::from_secs(1)) // names a worker that is blocked
        .build()?;
    runtime.run(|| ecru::sleep(Duration::from_secs(3600)))?;
    Ok(())
}
