//! The works on one worker of ecru.

use std::io::{Read, Write};

use ecru::channel;
use ecru::net::{TcpListener, TcpStream};

use crate::{BATCH, ECHO, Meter, Work};

/// The memory of the recorder.
const BYTES: usize = 1 << 20;

pub(crate) fn measure(work: Work, is_recorded: bool) -> Meter {
    let mut builder = ecru::Runtime::builder().workers(1);
    if is_recorded {
        builder = builder.record(BYTES);
    }
    builder.build().expect("the runtime starts").run(|| match work {
        Work::Yield => yields(),
        Work::SpawnJoin => spawn_join(),
        Work::Channel => over_channels(),
        Work::Echo => echo(),
    })
}

fn yields() -> Meter {
    ecru::scope(|s| {
        let other = s.spawn(|| while ecru::yield_now().is_ok() {});
        let mut meter = Meter::start();
        while meter.goes_on() {
            // The other task yields as often.
            (0..BATCH / 2).for_each(|_| ecru::yield_now().expect("not cancelled"));
        }
        other.cancel();
        meter
    })
}

fn spawn_join() -> Meter {
    ecru::scope(|s| {
        let mut meter = Meter::start();
        while meter.goes_on() {
            (0..BATCH).for_each(|_| s.spawn(|| ()).join().expect("it ends"));
        }
        meter
    })
}

fn over_channels() -> Meter {
    let (ask, asked) = channel::bounded::<u32>(1);
    let (answer, answered) = channel::bounded::<u32>(1);
    ecru::scope(|s| {
        s.spawn(move || asked.iter().for_each(|value| answer.send(value).expect("it is open")));
        let mut meter = Meter::start();
        while meter.goes_on() {
            for value in 0..BATCH {
                ask.send(value).expect("it is open");
                assert_eq!(answered.recv(), Ok(value));
            }
        }
        drop(ask);
        meter
    })
}

fn echo() -> Meter {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let mut client = TcpStream::connect(address).expect("it listens");
    let (mut server, _) = listener.accept().expect("a client has come");
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("it is a socket");
    }
    ecru::scope(|s| {
        s.spawn(move || {
            let mut bytes = [0; ECHO];
            while server.read_exact(&mut bytes).is_ok() {
                server.write_all(&bytes).expect("the client is there");
            }
        });
        let mut bytes = [1; ECHO];
        let mut meter = Meter::start();
        while meter.goes_on() {
            for _ in 0..BATCH {
                client.write_all(&bytes).expect("the server is there");
                client.read_exact(&mut bytes).expect("the server is there");
            }
        }
        drop(client);
        meter
    })
}
