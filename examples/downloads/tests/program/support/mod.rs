//! Helpers for the tests: the program as a child process, a temporary folder, and servers that
//! misbehave on request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The hidden index of a folder.
pub(crate) const INDEX: &str = ".downloads.json";

/// No test takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the program under test, quiet and with short pauses before retries.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_downloads"));
    command.args(["--backoff", "0.01", "--timeout", "10"]).stdin(Stdio::null());
    command
}

/// Runs the program to its end, without a folder to put files into.
pub(crate) fn run_alone(arguments: &[&str]) -> Ran {
    Ran::from(program().args(arguments).output().expect("the program starts"))
}

/// Runs the program to its end, with files for `folder`.
pub(crate) fn run(folder: &Folder, arguments: &[&str]) -> Ran {
    let output =
        program().arg("-o").arg(&folder.0).args(arguments).output().expect("the program starts");
    Ran::from(output)
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes UTF-8");
        Self { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Ran {
    /// Asserts that the run succeeded.
    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.status, Some(0), "{self:#?}");
        self
    }

    /// Asserts that the run ended with `status`, and printed all of `words` on standard error.
    #[track_caller]
    pub(crate) fn failed(self, status: i32, words: &[&str]) -> Self {
        assert_eq!(self.status, Some(status), "{self:#?}");
        for word in words {
            assert!(self.err.contains(word), "`{word}` is missing in {self:#?}");
        }
        self
    }
}

/// A child that does not outlive its test.
#[derive(Debug)]
pub(crate) struct Running(pub Child);

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        Self(
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program starts"),
        )
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, signal).expect("the child runs");
    }

    /// Waits until the child listens for SIGINT: its thread for that starts when the handlers are
    /// in place. (The kernel reports a handler too early, because it is installed a moment before
    /// it has any effect.)
    pub(crate) fn catches_interrupts(&self) {
        let tasks = format!("/proc/{}/task", self.0.id());
        eventually("a thread that waits for signals", || {
            let names = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
            names
                .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
                .any(|name| name == "signals\n")
        });
    }

    pub(crate) fn finish(mut self) -> Ran {
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().expect("piped").read_to_string(&mut out).expect("UTF-8");
        if let Some(mut pipe) = self.0.stderr.take() {
            pipe.read_to_string(&mut err).expect("UTF-8");
        }
        let status = self.0.wait().expect("it was not waited for");
        Ran { status: status.code(), out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Polls until `so` returns true, for changes in the file system and `/proc` that cause no
/// notification.
#[track_caller]
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < PATIENCE, "still not: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A folder for one test.
#[derive(Debug)]
pub(crate) struct Folder(pub PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "downloads-test-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("the temporary folder can be written");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name))
            .unwrap_or_else(|error| panic!("{name}: {error}; there are {:?}", self.names()))
    }

    pub(crate) fn length(&self, name: &str) -> u64 {
        self.path(name).metadata().map_or(0, |metadata| metadata.len())
    }

    /// The names in the folder, without the program's index.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("the folder is there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
            .filter(|name| name != INDEX)
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a body in which every byte shows its position.
pub(crate) fn body(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at * 31 + at / 251) % 251).expect("less than 251")).collect()
}

/// A request as it arrived, and its number, from 0.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub number: usize,
    pub head: String,
}

impl Asked {
    /// Returns the value of a header, if it was sent.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    pub(crate) fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    pub(crate) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

/// A server that does what its test says. It takes one request for each connection, and closes the
/// connection afterwards.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<Mutex<Vec<Asked>>>,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let mut server = Self::accept(move |mut stream| {
            let Some(head) = read_head(&stream) else { return };
            let request = {
                let mut seen = seen.lock().unwrap();
                let request = Asked { number: seen.len(), head };
                seen.push(request.clone());
                request
            };
            answer(&request, &mut stream);
        });
        server.asked = asked;
        server
    }

    /// Starts a server that passes each connection to `serve`, on a thread of its own.
    pub(crate) fn accept(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let serve = Arc::new(serve);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, serve) = (stream.expect("a connection"), Arc::clone(&serve));
                std::thread::spawn(move || serve(stream));
            }
        });
        Self { address, asked: Arc::default(), stop, accepting: Some(accepting) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    pub(crate) fn request(&self, number: usize) -> Asked {
        self.asked.lock().unwrap()[number].clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // This ends the wait for a connection.
        if TcpStream::connect(self.address).is_ok()
            && let Some(accepting) = self.accepting.take()
        {
            let _ = accepting.join();
        }
    }
}

/// Reads the head of a request. Returns `None` if the client has closed.
pub(crate) fn read_head(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// Sends a complete answer. The client may have disconnected, which the test has to detect.
pub(crate) fn send(stream: &mut TcpStream, status: &str, headers: &[(&str, &str)], body: &[u8]) {
    send_short(stream, status, headers, body, body.len());
}

/// Sends an answer that announces `announced` bytes, whatever the length of its body.
pub(crate) fn send_short(
    stream: &mut TcpStream,
    status: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    announced: usize,
) {
    let mut answer =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {announced}\r\n");
    for (name, value) in headers {
        answer.push_str(&format!("{name}: {value}\r\n"));
    }
    answer.push_str("\r\n");
    let mut bytes = answer.into_bytes();
    bytes.extend_from_slice(body);
    let _ = stream.write_all(&bytes);
}

/// Sends a correct answer with one ETag, with support for ranges and `HEAD`.
pub(crate) fn serve(asked: &Asked, stream: &mut TcpStream, etag: &str, whole: &[u8]) {
    if asked.method() == "HEAD" {
        return send_short(stream, "200 OK", &[("ETag", etag)], b"", whole.len());
    }
    let matches = asked.header("if-range").is_none_or(|validator| validator == etag);
    let start = asked
        .header("range")
        .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    match start.filter(|_| matches) {
        Some(start) if start < whole.len() => {
            let range = format!("bytes {start}-{}/{}", whole.len() - 1, whole.len());
            send(
                stream,
                "206 Partial Content",
                &[("ETag", etag), ("Content-Range", &range)],
                &whole[start..],
            );
        }
        Some(_) => {
            let range = format!("bytes */{}", whole.len());
            send(stream, "416 Range Not Satisfiable", &[("Content-Range", &range)], b"");
        }
        None => send(stream, "200 OK", &[("ETag", etag)], whole),
    }
}

/// The program's own server, in a process of its own.
pub(crate) fn own_server(arguments: &[&str]) -> (Running, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_downloads"));
    command.args(["--serve", "127.0.0.1:0"]).args(arguments);
    let mut server = Running::start(command);
    let mut url = String::new();
    let output = server.0.stdout.as_mut().expect("piped");
    BufReader::new(output).read_line(&mut url).expect("the server says where it is");
    (server, url.trim().to_string())
}

/// Returns whether `path` exists, for a path outside a test's folder.
pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
