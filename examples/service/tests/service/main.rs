//! The service over real connections.

#[path = "../../../../tests/common/mod.rs"]
mod common;
#[allow(dead_code, unreachable_pub, missing_docs, reason = "it is a module of a library there")]
#[path = "../../../../tests/ecosystem/src/servers.rs"]
mod servers;
mod settings;

use std::collections::HashSet;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::{Request, Response, Version};
use common::Watchdog;
use ecru::channel;
use ecru::net::{TcpListener, TcpStream};
use ecru_hyper::RequestBody;
use rustix::process::{Pid, Signal};
use rustls::crypto::ring;
use servers::{PASSWORD, Server, USER};
use service::{Config, Hook};
use settings::Identity;

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

fn url(database: &Server) -> String {
    let password = PASSWORD.replace(' ', "%20");
    format!("postgres://{USER}:{password}@{}/postgres", database.address())
}

/// The settings of a service whose listener is used again after its stop. No request is refused only
/// because the machine, or the disk of the database, is slow.
fn config(database: &Server) -> Config {
    let (database, request) = (url(database).parse().unwrap(), common::HOUR);
    let default = Config::read(|_| None).unwrap();
    Config { database, request, refuses_late: false, ..default }
}

/// Runs the service while `body` runs, and then `after` with what that has returned.
fn while_served<T>(body: impl FnOnce(SocketAddr) -> T, after: impl FnOnce(T)) {
    let Some(database) = servers::postgres() else { return };
    let _watchdog = Watchdog::new();
    ecru::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let config = config(&database);
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
        for line in ["service_failures_total 0", "service_feeds 0"] {
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

/// The service is stopped and started again on the same listener under load, for five seconds and at
/// least four times. No request fails.
#[test]
fn a_restart_under_load_slow() {
    const CLIENTS: usize = 16;
    const RESTARTS: usize = 4;
    const LOAD: Duration = Duration::from_secs(5);
    /// Those of each server, at least. Each log-in waits for the disk of the database.
    const ANSWERS: usize = 100;
    let Some(database) = servers::postgres() else { return };
    let _watchdog = Watchdog::new();
    let answered = AtomicUsize::new(0);
    ecru::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let config = config(&database);
        let is_over = AtomicBool::new(false);
        let (is_over, answered, listener, config) = (&is_over, &answered, &listener, &config);
        ecru::scope(|s| {
            let mut clients: Vec<_> = (0..CLIENTS)
                .map(|number| s.spawn(move || keep_asking(address, number, is_over, answered)))
                .collect();
            let begun = Instant::now();
            for restart in 0.. {
                let (stop, stopped) = channel::bounded::<()>(0);
                let server = s.spawn(move || service::serve(listener, config, stopped));
                let before = answered.load(SeqCst);
                common::until(|| answered.load(SeqCst) > before + ANSWERS);
                let is_last = restart >= RESTARTS && begun.elapsed() >= LOAD;
                if is_last {
                    is_over.store(true, SeqCst);
                    clients.drain(..).for_each(|client| client.join().unwrap());
                }
                drop(stop);
                server.join().unwrap().unwrap();
                if is_last {
                    break;
                }
            }
        });
    });
    assert!(answered.load(SeqCst) > ANSWERS * RESTARTS);
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

/// The program with a certificate: it answers over TLS, by each version of HTTP, and hangs up on a
/// client that speaks plainly.
#[test]
fn over_tls() {
    let Some(database) = servers::postgres() else { return };
    let _watchdog = Watchdog::new();
    let identity = Identity::new("tls");
    let program = Program::start_with(&database, "127.0.0.1:0", 1024, |command| {
        command.env("SERVICE_CERTIFICATE", identity.file("chain.pem"));
        command.env("SERVICE_KEY", identity.file("key.pem"));
    });
    let address = program.address;
    ecru::run(|| {
        let tls = Arc::new(identity.trusted());
        let url = format!("https://localhost:{}/health", address.port());
        ecru::scope(|s| {
            let first = ecru_hyper::client(s).tls(Arc::clone(&tls)).build();
            let second = ecru_hyper::client(s).tls(Arc::clone(&tls)).http2().build();
            for (client, version) in [(first, Version::HTTP_11), (second, Version::HTTP_2)] {
                let answer = client.get(&url).unwrap();
                assert_eq!((answer.status().as_u16(), answer.version()), (200, version));
                assert_eq!(&answer.into_body().bytes().unwrap()[..], b"ok");
            }
        });
        let mut plain = TcpStream::connect(address).unwrap();
        plain.write_all(b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = plain.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    });
    program.stop();
}

/// A server that is told of notes over HTTPS, also of those that come just before the stop.
#[test]
fn a_hook() {
    let Some(database) = servers::postgres() else { return };
    let identity = Identity::new("hook");
    let tls = ecru_hyper::server_tls(
        ring::default_provider(),
        identity.file("chain.pem"),
        identity.file("key.pem"),
    );
    let trusts = identity.trusted();
    let _watchdog = Watchdog::new();
    ecru::run(|| {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://localhost:{}/notes", other.local_addr().unwrap().port());
        let (told, notes) = channel::unbounded();
        let hear = move |request: Request<RequestBody>| -> io::Result<_> {
            let note = request.into_body().bytes()?;
            told.send(String::from_utf8(note.to_vec()).unwrap()).unwrap();
            Ok(Response::new(String::new()))
        };
        ecru::scope(|s| {
            let other = ecru_hyper::serve(&other, ecru_hyper::direct(hear)).tls(tls.unwrap());
            s.spawn_daemon(move || other.run());
            let hook = Some(Hook { url, tls: Arc::new(trusts) });
            let config = Config { hook, ..config(&database) };
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let (stop, stopped) = channel::bounded::<()>(0);
            let server = s.spawn(move || service::serve(&listener, &config, stopped));
            let mut client = Client::new(address);
            let cookie = log_in(&mut client, "ada");
            for number in 0..10 {
                let note = format!(r#"{{"text":"{number}"}}"#);
                assert_eq!(client.post("/notes", &cookie, &note).status, 201);
            }
            drop(stop);
            server.join().unwrap().unwrap();
            for number in 0..10 {
                let note = format!(r#"{{"author":"ada","text":"{number}"}}"#);
                assert_eq!(notes.try_recv(), Ok(note));
            }
        });
    });
}

/// The program itself, in a process of its own, which is killed when this is dropped.
struct Program {
    child: Child,
    address: SocketAddr,
}

impl Program {
    /// Starts it with this number of descriptors, and waits until it listens.
    fn start(database: &Server, listen: &str, descriptors: u32) -> Program {
        Program::start_with(database, listen, descriptors, |_| ())
    }

    /// Starts it with further settings.
    fn start_with(
        database: &Server,
        listen: &str,
        descriptors: u32,
        prepare: impl FnOnce(&mut Command),
    ) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {descriptors} && exec \"$0\"")]);
        command.arg(env!("CARGO_BIN_EXE_service")).stdout(Stdio::piped());
        command.env("SERVICE_LISTEN", listen).env("SERVICE_DATABASE", url(database));
        command.env_remove("RUST_LOG").env("NO_COLOR", "1");
        prepare(&mut command);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| Some(line.unwrap().split("address=").nth(1)?.parse()));
        // What it says later is read, so that it can be written.
        std::thread::spawn(move || lines.for_each(drop));
        Program { child, address: address.unwrap().unwrap() }
    }

    /// Asks it to stop by SIGTERM, and waits until it has.
    fn stop(mut self) {
        rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A service that is killed under load, and started again: what it has confirmed is there.
#[test]
fn a_kill_under_load_slow() {
    let Some(database) = servers::postgres() else { return };
    let _watchdog = Watchdog::new();
    let confirmed = Mutex::new(Vec::new());
    // The port is free again after each kill: no other socket of the machine has this address.
    let mut program = Program::start(&database, "127.77.30.1:0", 1024);
    let address = program.address;
    for kill in 0..3 {
        ecru::run(|| {
            ecru::scope(|s| {
                for number in 0..8 {
                    let confirmed = &confirmed;
                    // It ends at its first error, which is the kill.
                    s.spawn(move || -> io::Result<()> {
                        let mut client = Client::new(address);
                        let json = "Content-Type: application/json\r\n";
                        let login = client.ask("POST", "/login", json, r#"{"name":"ada"}"#)?;
                        let secret = login.head.split("session=").nth(1).unwrap();
                        let secret = secret.split(';').next().unwrap();
                        let headers = format!("Cookie: session={secret}\r\n{json}");
                        for note in 0.. {
                            let text = format!("{kill} {number} {note}");
                            let body = format!(r#"{{"text":"{text}"}}"#);
                            client.stream = None; // A note is not sent twice.
                            let answer = client.ask("POST", "/notes", &headers, &body)?;
                            assert_eq!(answer.status, 201);
                            confirmed.lock().unwrap().push(text);
                        }
                        Ok(())
                    });
                }
                let before = confirmed.lock().unwrap().len();
                common::until(|| confirmed.lock().unwrap().len() > before + 30);
                program.child.kill().unwrap();
            });
        });
        program.child.wait().unwrap();
        program = Program::start(&database, &address.to_string(), 1024);
        assert_eq!(program.address, address);
    }
    program.stop();
    ecru::run(|| {
        let mut client = ecru_postgres::connect(&url(&database)).unwrap();
        let rows = client.query("SELECT text FROM notes", &[]).unwrap();
        let kept: HashSet<String> = rows.iter().map(|row| row.get(0)).collect();
        let confirmed = confirmed.into_inner().unwrap();
        assert!(confirmed.len() > 90 && confirmed.iter().all(|note| kept.contains(note)));
    });
}

/// The head of a request whose body comes byte by byte.
const DRIPPING: &str = "POST /login HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n\
    Content-Length: 1000\r\n\r\n";

/// A body that drips does not hold up a stop for longer than the grace, and costs the others nothing.
/// The request is refused, or its connection ends without an answer.
#[test]
fn a_body_that_drips() {
    let Some(database) = servers::postgres() else { return };
    let _watchdog = Watchdog::new();
    ecru::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (request, grace) = (Duration::from_millis(300), Duration::from_millis(100));
        let config = Config { request, grace, ..config(&database) };
        let (stop, stopped) = channel::bounded::<()>(0);
        ecru::scope(|s| {
            let server = s.spawn(|| service::serve(&listener, &config, stopped));
            let mut dripping = TcpStream::connect(address).unwrap();
            dripping.write_all(DRIPPING.as_bytes()).unwrap();
            let mut writer = dripping.try_clone().unwrap();
            s.spawn_daemon(move || -> io::Result<()> {
                loop {
                    writer.write_all(b" ")?;
                    ecru::sleep(Duration::from_millis(5))?;
                }
            });
            let mut others = Client::new(address);
            log_in(&mut others, "ada");
            // The time limit of a request covers its body.
            let mut head = [0; 12];
            dripping.read_exact(&mut head).unwrap();
            assert!(head.starts_with(b"HTTP/1.1 4") || head.starts_with(b"HTTP/1.1 5"), "{head:?}");
            assert_eq!(others.get("/health").status, 200);
            // Another one is in progress when the service stops.
            let mut late = TcpStream::connect(address).unwrap();
            late.write_all(DRIPPING.as_bytes()).unwrap();
            others.get("/health");
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}

/// 2,000 clients at once, beside ones that send nothing, whose heads or bodies drip, and that have
/// closed their sending side, while the service has 256 descriptors: each request is answered.
#[test]
fn too_many_clients_slow() {
    const CLIENTS: usize = 2_000;
    let Some(database) = servers::postgres() else { return };
    let _watchdog = Watchdog::new();
    let program = Program::start(&database, "127.0.0.1:0", 256);
    let address = program.address;
    let answered = AtomicUsize::new(0);
    ecru::run(|| {
        ecru::scope(|s| {
            let connect = || TcpStream::connect(address).unwrap();
            let silent: Vec<_> = (0..50).map(|_| connect()).collect();
            let half: Vec<_> = (0..50)
                .map(|_| {
                    let mut stream = connect();
                    stream.write_all(b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
                    stream.shutdown(Shutdown::Write).unwrap();
                    stream
                })
                .collect();
            for number in 0..50 {
                s.spawn_daemon(move || -> io::Result<()> {
                    let mut stream = TcpStream::connect(address)?;
                    let drips = if number % 2 == 0 {
                        &b"GET /health HTTP/1.1\r\nHost: here\r\nX: "[..]
                    } else {
                        stream.write_all(DRIPPING.as_bytes())?;
                        &[]
                    };
                    for byte in drips.iter().chain([&b'x'; 1000]) {
                        stream.write_all(&[*byte])?;
                        ecru::sleep(Duration::from_millis(100))?;
                    }
                    Ok(())
                });
            }
            let answered = &answered;
            ecru::scope(|clients| {
                for _ in 0..CLIENTS {
                    clients.spawn(move || {
                        let mut client = Client::new(address);
                        assert_eq!(client.get("/health").status, 200);
                        answered.fetch_add(1, SeqCst);
                    });
                }
            });
            drop((silent, half));
        });
        // It works on, with its database.
        let mut client = Client::new(address);
        log_in(&mut client, "ada");
    });
    assert_eq!(answered.into_inner(), CLIENTS);
    program.stop();
}
