//! A client that knows nothing of HTTP but its words, and what the tests serve.

use std::convert::Infallible;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;

use ecru::channel::{self, Receiver, Sender};
use ecru::net::{TcpListener, TcpStream};
use ecru_hyper::RequestBody;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, Response};

/// A response of the tests' handlers.
pub(crate) type Page = Response<Full<Bytes>>;

pub(crate) fn page(text: impl Into<Bytes>) -> Page {
    Response::new(Full::new(text.into()))
}

/// A handler in direct style.
pub(crate) fn hello(_: Request<RequestBody>) -> Result<Page, Infallible> {
    Ok(page("hello"))
}

/// Sends requests on one connection, and reads their answers.
pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        Client(TcpStream::connect(address).unwrap())
    }

    /// Returns the status line and the body.
    pub(crate) fn ask(&mut self, request: &str) -> io::Result<(String, String)> {
        self.0.write_all(request.as_bytes())?;
        self.answer()
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<(String, String)> {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n"))
    }

    pub(crate) fn answer(&mut self) -> io::Result<(String, String)> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned)
        });
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body)?;
        Ok((head.lines().next().unwrap().to_owned(), String::from_utf8(body).unwrap()))
    }

    /// Returns whether the server closes the connection without an answer.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}

/// A server that stops when the sender is dropped, and its address.
pub(crate) fn listen() -> (TcpListener, SocketAddr, Sender<()>, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = channel::bounded(0);
    (listener, address, stop, stopped)
}
