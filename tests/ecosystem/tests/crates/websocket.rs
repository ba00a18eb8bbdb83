//! tungstenite, client and server.

use crate::support::{assert_timed_out, each_run, interrupted, pair, two_at_once};
use ecru::net::TcpStream;
use tungstenite::handshake::HandshakeError;
use tungstenite::{Error, Message, accept, client};

fn echo(stream: TcpStream) -> Result<(), Error> {
    let mut socket = accept(stream).map_err(|error| match error {
        HandshakeError::Failure(error) => error,
        HandshakeError::Interrupted(_) => unreachable!("our streams wait"),
    })?;
    loop {
        match socket.read() {
            Ok(message @ (Message::Text(_) | Message::Binary(_))) => socket.send(message)?,
            Ok(_) => {}
            Err(Error::ConnectionClosed) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

#[test]
fn websocket_two_connections_at_once() {
    let talk = |number: usize, address| {
        let name = ["one", "two"][number];
        let stream = TcpStream::connect(address).unwrap();
        let (mut socket, _) = client(format!("ws://{address}/{name}"), stream).unwrap();
        for size in [0, 10, 100_000, 1_000_000] {
            let sent = Message::text(name.repeat(size));
            socket.send(sent.clone()).unwrap();
            assert_eq!(socket.read().unwrap(), sent);
        }
        socket.close(None).unwrap();
        let ended = std::iter::repeat_with(|| socket.read()).find_map(Result::err);
        assert!(matches!(ended, Some(Error::ConnectionClosed)), "{ended:?}");
    };
    two_at_once(|stream| echo(stream).unwrap(), talk);
}

#[test]
fn websocket_handshake_and_read_with_a_silent_peer() {
    each_run(|| {
        let (ours, theirs) = pair();
        let failed = interrupted(|| client("ws://localhost/", ours).unwrap_err());
        let HandshakeError::Failure(Error::Io(error)) = failed else { panic!("{failed:?}") };
        assert_timed_out(&error);
        drop(theirs);

        let (ours, theirs) = pair();
        ecru::scope(|s| {
            let server = s.spawn(|| accept(theirs).unwrap());
            let (mut socket, _) = client("ws://localhost/", ours).unwrap();
            let mut server = server.join().unwrap();
            let failed = interrupted(|| socket.read().unwrap_err());
            let Error::Io(error) = failed else { panic!("{failed:?}") };
            assert_timed_out(&error);
            // The connection is still usable.
            server.send(Message::text("late")).unwrap();
            assert_eq!(socket.read().unwrap(), Message::text("late"));
        });
    });
}
