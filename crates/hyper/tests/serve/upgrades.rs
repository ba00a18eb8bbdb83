//! Connections that leave HTTP.

use std::io::{self, Read as _, Write as _};

use ecru::net::TcpStream;
use ecru_hyper::{RequestBody, direct, serve};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, Response};
use tungstenite::Message;
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::{Role, WebSocket};

use crate::client::{Client, listen};
use crate::common::each_run;

/// Echoes messages until the client closes the socket.
pub(crate) fn web_socket(mut request: Request<RequestBody>) -> io::Result<crate::client::Page> {
    let Some(key) = request.headers().get("Sec-WebSocket-Key") else {
        return Ok(Response::builder().status(400).body(Full::default()).unwrap());
    };
    let accepted = derive_accept_key(key.as_bytes());
    let upgrading = ecru_hyper::upgrade(&mut request);
    ecru::spawn(move || {
        let mut socket = WebSocket::from_raw_socket(upgrading.wait()?, Role::Server, None);
        while let Ok(message) = socket.read() {
            if message.is_text() {
                socket.send(message).map_err(io::Error::other)?;
            }
        }
        io::Result::Ok(())
    });
    let response = Response::builder()
        .status(101)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Accept", accepted);
    Ok(response.body(Full::default()).unwrap())
}

/// tungstenite at both ends.
#[test]
fn a_web_socket() {
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, direct(web_socket)).stop_when(stopped).run());
            let stream = TcpStream::connect(address).unwrap();
            let (mut socket, _) = tungstenite::client(format!("ws://{address}/"), stream).unwrap();
            for text in ["one", "two"] {
                socket.send(Message::from(text)).unwrap();
                assert_eq!(socket.read().unwrap(), Message::from(text));
            }
            socket.close(None).unwrap();
            while socket.read().is_ok() {}
            assert!(Client::connect(address).get("/").unwrap().0.ends_with("400 Bad Request"));
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}

/// Bytes that follow the head at once are the stream's first ones. A request without an upgrade has
/// no stream.
#[test]
fn bytes_that_come_with_the_head() {
    each_run(|| {
        let echo = |mut request: Request<RequestBody>| -> io::Result<Response<Full<Bytes>>> {
            let upgrading = ecru_hyper::upgrade(&mut request);
            if request.headers().get("Upgrade").is_none() {
                assert!(upgrading.wait().is_err());
                return Ok(Response::new(Full::from("no upgrade")));
            }
            ecru::spawn(move || {
                let mut stream = upgrading.wait()?;
                assert!(stream.tcp().is_some());
                let mut word = [0; 6];
                stream.read_exact(&mut word)?;
                stream.write_all(&word)
            });
            let response = Response::builder().status(101).header("Upgrade", "echo");
            Ok(response.header("Connection", "upgrade").body(Full::default()).unwrap())
        };
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, direct(echo)).stop_when(stopped).run());
            assert_eq!(Client::connect(address).get("/").unwrap().1, "no upgrade");
            let mut client = Client::connect(address);
            let head =
                "GET / HTTP/1.1\r\nHost: here\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
            let (status, _) = client.ask(&format!("{head}abc")).unwrap();
            assert_eq!(status, "HTTP/1.1 101 Switching Protocols");
            client.0.write_all(b"def").unwrap();
            let mut answer = String::new();
            client.0.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, "abcdef");
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}
