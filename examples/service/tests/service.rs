//! The service over real connections.

#[path = "../../../tests/common/mod.rs"]
mod common;

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use common::Watchdog;
use ecru::channel;
use ecru::net::{TcpListener, TcpStream};
use service::Config;

/// An answer: its status, head and body.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// A connection that is used again, as clients with a pool do.
struct Client {
    address: SocketAddr,
    stream: Option<TcpStream>,
}

impl Client {
    fn new(address: SocketAddr) -> Client {
        Client { address, stream: None }
    }

    /// Sends a request. Sends it once more if a connection that was used before is closed without
    /// an answer.
    fn ask(&mut self, method: &str, path: &str, headers: &str, body: &str) -> io::Result<Answer> {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: here\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        );
        if let Some(mut used) = self.stream.take()
            && let Ok(answer) = exchange(&mut used, &request)
        {
            self.keep(used, &answer);
            return Ok(answer);
        }
        let mut fresh = TcpStream::connect(self.address)?;
        let answer = exchange(&mut fresh, &request)?;
        self.keep(fresh, &answer);
        Ok(answer)
    }

    fn keep(&mut self, stream: TcpStream, answer: &Answer) {
        if !answer.head.to_ascii_lowercase().contains("connection: close") {
            self.stream = Some(stream);
        }
    }

    fn post(&mut self, path: &str, headers: &str, body: &str) -> Answer {
        let headers = format!("{headers}Content-Type: application/json\r\n");
        self.ask("POST", path, &headers, body).unwrap()
    }

    fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, "", "").unwrap()
    }
}

/// Sends a request, and reads its answer. Fails only if nothing was answered.
fn exchange(stream: &mut TcpStream, request: &str) -> io::Result<Answer> {
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        let read = stream.read_exact(&mut byte);
        assert!(read.is_ok() || head.is_empty(), "an answer has been cut: {head:?}");
        read?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let field = |name: &str| {
        let find = |line: &str| line.to_ascii_lowercase().strip_prefix(name).map(str::to_owned);
        head.lines().find_map(find)
    };
    let length = field("content-length: ").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a whole answer");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Ok(Answer { status, head, body: String::from_utf8(body).unwrap() })
}

/// Runs the service while `body` runs, and then `after` with what that has returned.
fn while_served<T>(body: impl FnOnce(SocketAddr) -> T, after: impl FnOnce(T)) {
    let _watchdog = Watchdog::new();
    ecru::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let config = Config::default();
        let (stop, stopped) = channel::bounded::<()>(0);
        ecru::scope(|s| {
            let server = s.spawn(|| service::serve(&listener, &config, stopped));
            let made = body(address);
            drop(stop);
            server.join().unwrap().unwrap();
            after(made);
        });
    });
}

/// Logs in, and returns the header with the cookie.
fn log_in(client: &mut Client, name: &str) -> String {
    let login = client.post("/login", "", &format!(r#"{{"name":"{name}"}}"#));
    assert_eq!(login.status, 204);
    let secret = login.head.split("session=").nth(1).unwrap().split(';').next().unwrap();
    format!("Cookie: theme=dark; session={secret}\r\n")
}

#[test]
fn notes_and_sessions() {
    let body = |address| {
        let mut client = Client::new(address);
        assert_eq!(client.get("/health").body, "ok");
        assert_eq!(client.get("/notes").body, "[]");
        let note = r#"{"text":"hello"}"#;
        assert_eq!(client.post("/notes", "", note).status, 401);
        assert_eq!(client.post("/notes", "Cookie: session=guess\r\n", note).status, 401);
        assert_eq!(client.post("/login", "", r#"{"name":""}"#).status, 422);
        let cookie = log_in(&mut client, "ada");
        assert_eq!(client.post("/notes", &cookie, "no json").status, 400);
        let added = client.post("/notes", &cookie, note);
        assert_eq!((added.status, &*added.body), (201, r#"{"author":"ada","text":"hello"}"#));
        assert_eq!(client.get("/notes").body, r#"[{"author":"ada","text":"hello"}]"#);
        assert_eq!(client.get("/nothing").status, 404);
        let metrics = client.get("/metrics").body;
        for line in ["service_failures_total 0", "service_notes 1", "service_feeds 0"] {
            assert!(metrics.lines().any(|own| own == line), "{metrics}");
        }
        let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000));
        assert_eq!(client.post("/notes", &cookie, &large).status, 413);
    };
    while_served(body, |()| ());
}

/// A feed is told of new notes, and closed when the service stops.
#[test]
fn a_feed() {
    let body = |address| {
        let mut client = Client::new(address);
        assert_eq!(client.get("/feed").status, 426);
        let stream = TcpStream::connect(address).unwrap();
        let (mut socket, _) = tungstenite::client(format!("ws://{address}/feed"), stream).unwrap();
        let cookie = log_in(&mut client, "bob");
        assert_eq!(client.post("/notes", &cookie, r#"{"text":"news"}"#).status, 201);
        let told = socket.read().unwrap();
        assert_eq!(told.to_text().unwrap(), r#"{"author":"bob","text":"news"}"#);
        socket
    };
    while_served(body, |mut socket| assert!(socket.read().unwrap().is_close()));
}

/// The service is stopped and started again on the same listener under load. No request fails.
#[test]
fn a_restart_under_load_slow() {
    const CLIENTS: usize = 16;
    const RESTARTS: usize = 4;
    let _watchdog = Watchdog::new();
    let answered = AtomicUsize::new(0);
    ecru::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let config = Config { grace: Duration::from_secs(20), ..Config::default() };
        let is_over = AtomicBool::new(false);
        let (is_over, answered, listener, config) = (&is_over, &answered, &listener, &config);
        ecru::scope(|s| {
            let mut clients: Vec<_> = (0..CLIENTS)
                .map(|number| s.spawn(move || keep_asking(address, number, is_over, answered)))
                .collect();
            for restart in 0..=RESTARTS {
                let (stop, stopped) = channel::bounded::<()>(0);
                let server = s.spawn(move || service::serve(listener, config, stopped));
                let before = answered.load(SeqCst);
                common::until(|| answered.load(SeqCst) > before + 500);
                if restart == RESTARTS {
                    is_over.store(true, SeqCst);
                    clients.drain(..).for_each(|client| client.join().unwrap());
                }
                drop(stop);
                server.join().unwrap().unwrap();
            }
        });
    });
    assert!(answered.load(SeqCst) > 500 * RESTARTS);
}

/// Asks until it is over. Each fourth client begins a new connection each time.
fn keep_asking(address: SocketAddr, number: usize, is_over: &AtomicBool, answered: &AtomicUsize) {
    let mut client = Client::new(address);
    while !is_over.load(SeqCst) {
        if number.is_multiple_of(4) {
            client.stream = None;
        }
        log_in(&mut client, "one of many");
        assert_eq!(client.get("/health").status, 200);
        answered.fetch_add(2, SeqCst);
    }
}
