//! rustls, client and server.

use std::io::{self, Read, Write};

use crate::support::{assert_timed_out, each_run, interrupted, pair, two_at_once};
use ecru::net::TcpStream;
use ecru_ecosystem::tls::Identity;

fn echo(identity: &Identity, stream: TcpStream) -> io::Result<u64> {
    let mut stream = identity.accept(stream);
    let mut buffer = [0; 4096];
    let mut echoed = 0;
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            count => stream.write_all(&buffer[..count])?,
        }
        stream.flush()?;
        echoed += 1;
    }
    stream.conn.send_close_notify();
    stream.flush()?;
    Ok(echoed)
}

#[test]
fn tls_two_connections_at_once() {
    let identity = Identity::new();
    let serve = |stream| assert!(echo(&identity, stream).unwrap() > 0);
    two_at_once(serve, |client, address| {
        let seed = [3, 5][client];
        let mut stream = identity.connect(TcpStream::connect(address).unwrap());
        // Several records, and more bytes than the sockets hold unread.
        for round in 0..20_usize {
            let bytes: Vec<u8> = (0..round * 1000).map(|n| (n * seed % 251) as u8).collect();
            stream.write_all(&bytes).unwrap();
            let mut back = vec![0; bytes.len()];
            stream.read_exact(&mut back).unwrap();
            assert_eq!(back, bytes);
        }
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
}

/// The peer sends nothing, or half of its handshake. A time limit around the handshake expires, and
/// shows in rustls's error.
#[test]
fn tls_handshake_with_a_silent_peer() {
    let identity = Identity::new();
    each_run(|| {
        let (ours, theirs) = pair();
        let error = interrupted(|| identity.connect(ours).write(b"x").unwrap_err());
        assert_timed_out(&error);
        drop(theirs);

        let (ours, mut theirs) = pair();
        theirs.write_all(&[22, 3, 1]).unwrap(); // the start of a handshake record
        let error = interrupted(|| identity.accept(ours).read(&mut [0]).unwrap_err());
        assert_timed_out(&error);
    });
}

/// A read that a time limit ended has lost nothing, neither bytes in the kernel nor half a record
/// in rustls.
#[test]
fn tls_goes_on_after_a_time_limit() {
    let identity = Identity::new();
    each_run(|| {
        let (ours, theirs) = pair();
        let (go, gone) = ecru::channel::bounded(1);
        ecru::scope(|s| {
            s.spawn(|| {
                let mut server = identity.accept(theirs);
                server.write_all(b"one").unwrap();
                server.flush().unwrap();
                gone.recv().unwrap();
                server.write_all(b"two").unwrap();
                server.flush().unwrap();
            });
            let mut client = identity.connect(ours);
            let mut word = [0; 3];
            client.read_exact(&mut word).unwrap();
            assert_eq!(&word, b"one");
            assert_timed_out(&interrupted(|| client.read(&mut word).unwrap_err()));
            go.send(()).unwrap();
            client.read_exact(&mut word).unwrap();
            assert_eq!(&word, b"two");
        });
    });
}
