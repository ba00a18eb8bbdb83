use ecru::channel;
use ecru::signal::SignalKind;
use std::time::Duration;

fn ship(order: u32) {
    let (confirm, confirmed) = channel::oneshot::<u32>();
    let _for_later = (order, confirm); // the carrier should get this sender
    println!("{:?}", confirmed.recv());
}

fn main() -> std::io::Result<()> {
    let runtime = ecru::Runtime::builder().dump_on_signal(SignalKind::user_defined1()).build()?;
    runtime.run(|| {
        ecru::scope(|s| {
            for order in 0..5 {
                s.spawn(move || ship(order));
            }
            while ecru::sleep(Duration::from_millis(100)).is_ok() {} // the service goes on
        });
    });
    Ok(())
}
