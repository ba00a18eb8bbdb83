//! A cluster of real servers on loopback, with JetStream, in temporary folders. It runs while a value
//! lives.
//!
//! A server that is killed must find its ports again, and in a cluster each must know the ports of
//! the others before they run. So each cluster has an address of 127.0.0.0/8 to itself: no other
//! program takes a port there meanwhile.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use ecru_nats::jetstream::JetStream;

use crate::server::{launch, program};

/// Longer than a cluster takes for anything.
const LONG: Duration = Duration::from_secs(180);

/// The port by which a cluster reserves its address.
const RESERVATION: u16 = 20_000;

/// Running servers.
pub(crate) struct Cluster {
    nodes: Vec<Node>,
    folder: PathBuf,
    _reservation: TcpListener,
}

struct Node {
    name: String,
    folder: PathBuf,
    config: String,
    address: String,
    child: Child,
}

impl Cluster {
    /// Starts servers that are called `n1`, `n2` and so on, each with this configuration beside
    /// that of the cluster.
    pub(crate) fn start(count: usize, config: &str) -> Option<Cluster> {
        let program = program()?;
        let (ip, reservation) = reserve();
        let folder = std::env::temp_dir().join(format!("ecru-cluster-{ip}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        // All at once, so that they differ.
        let bound: Vec<TcpListener> =
            (0..2 * count).map(|_| TcpListener::bind((ip, 0)).unwrap()).collect();
        let ports: Vec<u16> = bound.iter().map(|one| one.local_addr().unwrap().port()).collect();
        drop(bound);
        let (client_ports, route_ports) = ports.split_at(count);
        let routes: Vec<String> =
            route_ports.iter().map(|port| format!("\"nats://{ip}:{port}\"")).collect();
        let nodes = (0..count).map(|index| {
            let name = format!("n{}", index + 1);
            let config = format!(
                "server_name: {name}\njetstream {{}}\n{config}\n\
                 cluster {{ name: fleet, listen: \"{ip}:{}\", routes: [{}] }}",
                route_ports[index],
                routes.join(", ")
            );
            let folder = folder.join(&name);
            fs::create_dir(&folder).unwrap();
            let address = format!("{ip}:{}", client_ports[index]);
            let (child, _) = launch(&program, &folder, &config, &address);
            Node { name, folder, config, address, child }
        });
        let nodes = nodes.collect();
        Some(Cluster { nodes, folder, _reservation: reservation })
    }

    /// Returns the addresses of all servers.
    pub(crate) fn urls(&self) -> String {
        self.urls_as("")
    }

    /// Returns the addresses of all servers, with a `user:password@` in each.
    pub(crate) fn urls_as(&self, login: &str) -> String {
        let urls = self.nodes.iter().map(|node| format!("nats://{login}{}", node.address));
        urls.collect::<Vec<_>>().join(",")
    }

    fn node(&mut self, name: &str) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.name == name).unwrap()
    }

    /// Kills a server, without a chance to say so.
    pub(crate) fn kill(&mut self, name: &str) {
        let child = &mut self.node(name).child;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts a killed server again, with the same ports and data.
    pub(crate) fn restart(&mut self, name: &str) {
        let program = program().unwrap();
        let node = self.node(name);
        (node.child, _) = launch(&program, &node.folder, &node.config, &node.address);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.child.kill();
            let _ = node.child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns an address that no other cluster has as long as the listener lives.
fn reserve() -> (IpAddr, TcpListener) {
    loop {
        let [_, b, c, d] = fastrand::u32(..).to_be_bytes();
        let ip = IpAddr::V4(Ipv4Addr::new(127, b | 1, c, d | 1));
        if let Ok(listener) = TcpListener::bind((ip, RESERVATION)) {
            return (ip, listener);
        }
    }
}

/// Repeats something until it succeeds, for instance while the servers elect a leader.
pub(crate) fn until<T, E: std::fmt::Display>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(error) => assert!(begun.elapsed() < LONG, "it still fails: {error}"),
        }
        ecru::sleep(Duration::from_millis(20)).unwrap();
    }
}

/// Waits until a stream has a leader and the other servers that have it are up to date, and returns
/// the name of the leader.
pub(crate) fn settled(js: &JetStream, stream: &str) -> String {
    until(|| {
        let cluster = js.stream_info(stream).map_err(|error| error.to_string())?.cluster;
        match cluster {
            Some(cluster)
                if !cluster.leader.is_empty()
                    && cluster.replicas.iter().all(|one| one.current && !one.offline) =>
            {
                Ok(cluster.leader)
            }
            other => Err(format!("{other:?}")),
        }
    })
}
