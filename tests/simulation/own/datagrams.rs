//! Datagrams: each one that a send has reported comes once, and whole.

use super::everywhere_with_faults;
use ecru::net::{UdpSocket, UnixDatagram};
use ecru::shield;
use std::io;
use std::sync::Mutex;

/// The datagram with a number.
fn datagram(number: u8) -> Vec<u8> {
    vec![number; 1 + usize::from(number)]
}

/// A sender and two receivers, of which one may be cancelled. What is left is read after them.
fn each_datagram_comes_once(
    send: impl Fn(&[u8]) -> io::Result<usize> + Sync,
    receive: impl Fn(&mut [u8]) -> io::Result<usize> + Sync,
    never_wait: impl Fn(),
) {
    let (sent, got) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let take = |bytes: &[u8]| {
        assert_eq!(bytes, datagram(bytes[0]));
        got.lock().unwrap().push(bytes[0]);
    };
    ecru::scope(|s| {
        let (send, receive, take, sent) = (&send, &receive, &take, &sent);
        let sender = s.spawn(move || {
            for number in 0..4 {
                if let Ok(count) = send(&datagram(number)) {
                    assert_eq!(count, 1 + usize::from(number));
                    sent.lock().unwrap().push(number);
                }
            }
        });
        let receivers = [(); 2].map(|()| {
            s.spawn(move || {
                let mut buffer = [0; 16];
                while let Ok(count) = receive(&mut buffer) {
                    take(&buffer[..count]);
                }
            })
        });
        let _ = shield(|| sender.join());
        receivers.iter().for_each(|receiver| receiver.cancel());
    });
    never_wait();
    let mut buffer = [0; 16];
    loop {
        match shield(|| receive(&mut buffer)) {
            Ok(count) => take(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(_) => {}
        }
    }
    let mut got = got.into_inner().unwrap();
    got.sort_unstable();
    assert_eq!(got, sent.into_inner().unwrap());
}

#[test]
fn each_udp_datagram_comes_once_slow() {
    everywhere_with_faults(|| {
        let (Ok(one), Ok(other)) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"))
        else {
            return;
        };
        let to = other.local_addr().unwrap();
        each_datagram_comes_once(
            |bytes| one.send_to(bytes, to),
            |buffer| {
                let (count, from) = other.recv_from(buffer)?;
                assert_eq!(from, one.local_addr().unwrap());
                Ok(count)
            },
            || other.set_nonblocking(true).unwrap(),
        );
    });
}

#[test]
fn each_unix_datagram_comes_once_slow() {
    everywhere_with_faults(|| {
        let Ok((one, other)) = UnixDatagram::pair() else { return };
        each_datagram_comes_once(
            |bytes| one.send(bytes),
            |buffer| other.recv(buffer),
            || other.set_nonblocking(true).unwrap(),
        );
    });
}

/// A look at a datagram leaves it there.
#[test]
fn a_look_takes_nothing_slow() {
    everywhere_with_faults(|| {
        let (Ok(one), Ok(other)) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"))
        else {
            return;
        };
        let to = other.local_addr().unwrap();
        each_datagram_comes_once(
            |bytes| one.send_to(bytes, to),
            |buffer| {
                other.peek_from(&mut buffer[..1])?;
                other.recv(buffer)
            },
            || other.set_nonblocking(true).unwrap(),
        );
    });
}
