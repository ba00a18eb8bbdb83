//! A real `nats-server` on loopback, in a temporary folder, which runs while a value lives.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// A running server.
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
    config: String,
    port: u16,
}

impl Server {
    /// Starts a server with JetStream and this configuration beside it. If the program is not
    /// installed, prints a line and returns `None`; in CI that is a failure.
    pub(crate) fn start(config: &str) -> Option<Server> {
        Server::start_without_streams(&format!("jetstream {{}}\n{config}"))
    }

    /// Starts a server without JetStream.
    pub(crate) fn start_without_streams(config: &str) -> Option<Server> {
        let program = program()?;
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("ecru-nats-{}-{number}", std::process::id()));
        // A process that was killed may have had the same number.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let (child, port) = launch(&program, &folder, config, "127.0.0.1:-1");
        Some(Server { child, folder, config: config.to_owned(), port })
    }

    /// Returns the address, as `host:port`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Kills the server, without a chance to say so.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops the server in good order.
    #[allow(dead_code, reason = "not every program of tests does that")]
    pub(crate) fn stop(&mut self) {
        self.signal("TERM");
        let _ = self.child.wait();
    }

    /// Starts a killed server again, on the same port and with the same data.
    pub(crate) fn restart(&mut self) {
        let program = program().unwrap();
        (self.child, _) = launch(&program, &self.folder, &self.config, &self.address());
    }

    /// Returns the folder with the server's data.
    #[allow(dead_code, reason = "not every program of tests looks into it")]
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Sends a signal, for instance `USR2`, upon which the server stops slowly.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").arg(format!("-{name}")).arg(id).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Starts the program, and returns when it listens. A port of -1 is a free one.
pub(crate) fn launch(program: &Path, folder: &Path, config: &str, listen: &str) -> (Child, u16) {
    let text = format!("listen: \"{listen}\"\n{config}\n");
    let file = folder.join("server.conf");
    fs::write(&file, text).unwrap();
    // The kernel kills it if the test's thread ends without stopping it.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).arg("-c").arg(file);
    command.arg("-sd").arg(folder.join("data"));
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let (mut listens, mut said) = (None, String::new());
    loop {
        let mut line = String::new();
        let length = log.read_line(&mut line).unwrap();
        assert!(length > 0, "nats-server did not start:\n{said}");
        if let Some((_, address)) = line.split_once("client connections on 127.") {
            let (_, port) = address.trim().rsplit_once(':').unwrap();
            listens = Some(port.parse().unwrap());
        }
        let ready = line.contains("Server is ready");
        said.push_str(&line);
        if ready {
            break;
        }
    }
    // Reads the rest, so that the server never waits for the pipe.
    thread::spawn(move || log.lines().for_each(drop));
    (child, listens.expect(&said))
}

/// Returns the path of the server.
pub(crate) fn program() -> Option<PathBuf> {
    tool("nats-server")
}

/// Returns the path of a program that `.ci/prepare` installs.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let target = own.ancestors().find(|folder| folder.join("tools").is_dir());
    let tools = target.map(|target| target.join("tools/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = tools.into_iter().chain(std::env::split_paths(&path));
    let found = folders.find_map(|folder| Some(folder.join(name)).filter(|p| p.is_file()));
    if found.is_none() {
        let required = |name| std::env::var(name).is_ok_and(|set| set == "true" || set == "1");
        let advice = format!("{name} is not installed; .ci/prepare installs it");
        assert!(!required("CI") && !required("ECRU_REQUIRE_SERVERS"), "{advice}");
        println!("SKIPPED: {advice}");
    }
    found
}
