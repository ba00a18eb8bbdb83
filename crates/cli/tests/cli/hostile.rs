//! Clients that mean harm, or are broken: they delay other clients at most.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::support::{path, said, start};

fn connect(socket: &Path) -> UnixStream {
    UnixStream::connect(socket).unwrap()
}

/// Sends a request and returns the answer. A server that refuses may close before it is all sent.
fn answer(socket: &Path, request: &[u8]) -> String {
    let mut client = connect(socket);
    let _ = client.write_all(request);
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn hostile_clients_harm_nothing_slow() {
    let mut program = start("works");
    let socket = program.socket.clone();
    let works = || {
        let dump = said(&["dump", path(&socket)]);
        assert!(dump.contains("'beats'"), "{dump}");
    };
    // What is no request is refused with a reason.
    for (request, part) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "does not begin with `ecru/1 `"),
        (b"\xff\xfe\x00\n", "not UTF-8"),
        (b"ecru/9 dump\n", "does not begin"),
        (b"ecru/1 paint\n", "there is no command"),
        (b"ecru/1 dump xml\n", "has no form"),
        (b"ecru/1 stack seven\n", "is not the number of a task"),
        (b"ecru/1 stack 999999999\n", "there is no task"),
    ] {
        let said = answer(&socket, request);
        assert!(said.starts_with("ecru/1 error ") && said.contains(part), "{said:?}");
    }
    assert!(answer(&socket, b"ecru/1 help\n").contains("dump [json]"));
    assert!(answer(&socket, b"ecru/1 about\n").contains("\"protocol\":1"));
    // A line without an end.
    let endless = answer(&socket, &vec![b'a'; 1 << 20]);
    assert!(endless.is_empty() || endless.contains("longer than 256 bytes"), "{endless:?}");
    works();
    // Clients that send nothing, a part of a request, or do not take their answers. They stay open.
    let mut open = Vec::new();
    for n in 0..40 {
        let mut client = connect(&socket);
        match n % 8 {
            0..4 => {}
            4..7 => drop(client.write_all(b"ecru/1 du")),
            _ => drop(client.write_all(b"ecru/1 dump json\n")),
        }
        open.push(client);
    }
    works();
    // A thousand of them, in a row and then at once.
    for _ in 0..500 {
        drop(connect(&socket));
    }
    let many: Vec<_> = (0..500).map(|_| connect(&socket)).collect();
    works();
    drop((open, many));
    works();
    // A storm of dumps.
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                for _ in 0..5 {
                    assert!(said(&["dump", path(&socket)]).contains("'beats'"));
                }
            });
        }
    });
    drop(program.child.stdin.take());
    assert!(program.said.any(|line| line.unwrap().contains("over")));
    assert!(program.child.wait().unwrap().success(), "the program has gone on");
}
