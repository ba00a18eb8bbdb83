//! A cluster of three real `nats-server`s on loopback, each of which can be killed and started
//! again.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ecru::channel::{self, Receiver, Sender};

/// How many there are.
pub(crate) const COUNT: usize = 3;

/// The pause before a broker that did not start is started again, because its port was taken.
const AGAIN: Duration = Duration::from_millis(200);

/// The brokers.
pub(crate) struct Brokers {
    program: PathBuf,
    folder: PathBuf,
    nodes: Vec<Node>,
}

struct Node {
    clients: SocketAddr,
    routes: SocketAddr,
    child: Option<Child>,
}

impl Brokers {
    /// Chooses addresses. Nothing is started.
    pub(crate) fn new(folder: &Path) -> io::Result<Brokers> {
        let (program, folder) = (program()?, folder.to_owned());
        let ports = free_ports(2 * COUNT);
        let nodes = ports.chunks_exact(2).map(|ports| Node {
            clients: ports[0],
            routes: ports[1],
            child: None,
        });
        Ok(Brokers { program, folder, nodes: nodes.collect() })
    }

    /// Returns where the brokers listen for clients.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.clients).collect()
    }

    /// Starts all brokers. Clients are told to connect to the proxies.
    pub(crate) fn start(&mut self, proxies: &[SocketAddr]) -> io::Result<()> {
        let routes: Vec<_> =
            self.nodes.iter().map(|node| format!("nats://{}", node.routes)).collect();
        for (number, (node, proxy)) in self.nodes.iter().zip(proxies).enumerate() {
            let Node { clients, routes: own, .. } = node;
            let name = name(number);
            let data = self.folder.join(&name);
            let config = format!(
                "server_name: {name}\nlisten: \"{clients}\"\nclient_advertise: \"{proxy}\"\n\
                 jetstream {{ store_dir: {data:?} }}\n\
                 no_auth_user: chaos\naccounts {{ CHAOS {{ jetstream: {{ max_file: 64MB }}, \
                 users: [{{ user: chaos, password: chaos }}] }} }}\n\
                 cluster {{ name: chaos, listen: \"{own}\", routes: [{}] }}\n",
                routes.join(", ")
            );
            fs::write(self.config(number), config)?;
        }
        (0..COUNT).try_for_each(|number| self.restart(number))
    }

    fn config(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{}.conf", name(number)))
    }

    /// Kills a broker, without a chance to say so.
    pub(crate) fn kill(&mut self, number: usize) -> io::Result<()> {
        if let Some(mut child) = self.nodes[number].child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Starts a broker that was killed, at the same place and with the same data. Returns when it
    /// listens.
    pub(crate) fn restart(&mut self, number: usize) -> io::Result<()> {
        loop {
            let (mut child, ready) = self.launch(number)?;
            match ready.recv() {
                Ok(()) => {
                    self.nodes[number].child = Some(child);
                    return Ok(());
                }
                Err(error) => {
                    child.kill()?;
                    child.wait()?;
                    if error.is_cancelled() {
                        return Err(error.into());
                    }
                }
            }
            eprintln!("{} did not start: see its log; it is tried again", name(number));
            ecru::sleep(AGAIN)?;
        }
    }

    fn launch(&self, number: usize) -> io::Result<(Child, Receiver<()>)> {
        // The kernel kills it if the conductor ends without stopping it.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program);
        command.arg("-c").arg(self.config(number));
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let log = BufReader::new(child.stderr.take().expect("it is piped"));
        let path = self.folder.join(format!("{}.log", name(number)));
        let copy = fs::OpenOptions::new().create(true).append(true).open(path)?;
        let (tell, ready) = channel::bounded(1);
        std::thread::spawn(move || follow(log, copy, &tell));
        Ok((child, ready))
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        for number in 0..COUNT {
            let _ = self.kill(number);
        }
    }
}

/// Copies a log, and tells when the broker is ready.
fn follow(log: impl BufRead, mut copy: impl Write, ready: &Sender<()>) {
    for line in log.lines().map_while(Result::ok) {
        let _ = writeln!(copy, "{line}");
        if line.contains("Server is ready") {
            let _ = ready.try_send(());
        }
    }
    ready.close();
}

pub(crate) fn name(number: usize) -> String {
    format!("broker-{number}")
}

/// Returns the number of the broker with this name.
pub(crate) fn number(name: &str) -> Option<usize> {
    name.strip_prefix("broker-")?.parse().ok().filter(|number| *number < COUNT)
}

/// Returns ports that are free now. The kernel does not choose them for others while a broker is
/// dead: they are below those that it chooses from.
fn free_ports(count: usize) -> Vec<SocketAddr> {
    let mut held = Vec::new();
    while held.len() < count {
        let port = fastrand::u16(10_000..32_000);
        held.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    }
    held.iter().map(|held| held.local_addr().expect("it is bound")).collect()
}

/// Returns the path of the program, which `.ci/prepare` installs.
fn program() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().find(|folder| folder.join("tools").is_dir());
    let tools = target.map(|target| target.join("tools/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = tools.into_iter().chain(std::env::split_paths(&path));
    let found = folders.find_map(|folder| Some(folder.join("nats-server")).filter(|p| p.is_file()));
    found.ok_or_else(|| io::Error::other("nats-server is not installed; .ci/prepare installs it"))
}
