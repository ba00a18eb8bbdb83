//! Tests of the network alone: with a clock and a generator, without tasks.

mod connections;
mod datagrams;
mod faults;
mod pipes;
mod streams;

use super::*;
use crate::driver::request::{OptionKind, OptionValue};
use crate::driver::sim::Watcher;
use std::io::{IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::ops::RangeInclusive;

/// A network with a clock, and what is going to happen in it.
struct Lab {
    network: Network,
    now: Instant,
    start: Instant,
    random: Generator,
    draws: Draws,
    events: BTreeMap<(Instant, u64), Event>,
    next: u64,
    told: Vec<Watcher>,
}

const MS: Duration = Duration::from_millis(1);

fn v4(host: HostId, port: u16) -> Name {
    Name::Internet(SocketAddr::new(host.addresses()[0], port))
}

fn internet(text: &str) -> Name {
    Name::Internet(text.parse().unwrap())
}

fn path(text: &str) -> Name {
    Name::Unix(UnixName::Path(text.as_bytes().into()))
}

impl Lab {
    fn new() -> Lab {
        Lab::seeded(1)
    }

    fn seeded(seed: u64) -> Lab {
        let start = Instant::now();
        Lab {
            network: Network::new(),
            now: start,
            start,
            random: Generator::new(seed, 0),
            draws: Draws::new(seed),
            events: BTreeMap::new(),
            next: 0,
            told: Vec::new(),
        }
    }

    /// Calls the network, and notes what it leaves.
    fn with<T>(&mut self, f: impl FnOnce(&mut Network, &mut Ctx<'_>) -> T) -> T {
        let (mut later, mut withdrawn) = (Vec::new(), Vec::new());
        let (now, draws, woken) = (self.now, &mut self.draws, &mut self.told);
        let (journal, later_ref) = (&mut Journal::default(), &mut later);
        let withdrawn_ref = &mut withdrawn;
        let mut ctx =
            Ctx { now, draws, journal, later: later_ref, withdrawn: withdrawn_ref, woken };
        let result = f(&mut self.network, &mut ctx);
        for (at, event) in later {
            assert!(at >= self.now, "nothing happens in the past");
            self.events.insert((at, self.next), event);
            self.next += 1;
        }
        for gone in withdrawn {
            let found = self.events.iter().find(|((at, _), event)| (*at, **event) == gone);
            let key = *found.expect("what is withdrawn was to happen").0;
            self.events.remove(&key);
        }
        result
    }

    /// Lets everything happen until the given time after the start.
    fn run_to(&mut self, after: Duration) {
        let end = self.start + after;
        while let Some((&(at, number), _)) = self.events.first_key_value()
            && at <= end
        {
            let event = self.events.remove(&(at, number)).unwrap();
            self.now = at;
            self.with(|network, ctx| network.happen(ctx, event));
        }
        self.now = self.now.max(end);
    }

    /// Lets everything happen. Returns how long after the start the last event was.
    fn run(&mut self) -> Duration {
        while let Some((&(at, _), _)) = self.events.first_key_value() {
            self.run_to(at - self.start);
        }
        self.now - self.start
    }

    fn host(&mut self, name: &str) -> HostId {
        self.network.add_host(name).unwrap()
    }

    fn stream(&mut self, host: HostId) -> Id {
        self.network.open(host, Domain::V4, Transport::Stream).unwrap()
    }

    fn listener(&mut self, host: HostId, port: u16) -> Id {
        let id = self.stream(host);
        self.network.bind(id, &internet(&format!("0.0.0.0:{port}"))).unwrap();
        self.network.listen(id).unwrap();
        id
    }

    fn connect(&mut self, id: Id, to: &Name) -> Outcome<()> {
        self.with(|network, ctx| network.connect(ctx, id, to))
    }

    /// Returns how a connection attempt has ended, as a second call reports it.
    fn connected(&mut self, id: Id, to: &Name) -> Outcome<()> {
        match self.connect(id, to) {
            Err(Errno::ISCONN) => Ok(()),
            Ok(()) => panic!("the attempt began only now"),
            error => error,
        }
    }

    /// Connects two hosts. Returns the client's and the server's end, both ready.
    fn pair(&mut self, client: HostId, server: HostId) -> (Id, Id) {
        let listener = self.listener(server, 80);
        let id = self.stream(client);
        let _ = self.connect(id, &v4(server, 80));
        self.run();
        let (accepted, _) = self.network.accept(listener).unwrap();
        self.close(listener);
        self.told.clear();
        (id, accepted)
    }

    fn write(&mut self, id: Id, bytes: &[u8]) -> Outcome<usize> {
        self.with(|network, ctx| network.send(ctx, id, &[IoSlice::new(bytes)], None))
    }

    fn send_to(&mut self, id: Id, bytes: &[u8], to: &Name) -> Outcome<usize> {
        self.with(|network, ctx| network.send(ctx, id, &[IoSlice::new(bytes)], Some(to)))
    }

    fn receive(&mut self, id: Id, most: usize, peek: bool) -> Outcome<(Vec<u8>, Received)> {
        let mut buffer = vec![0; most];
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let received = self.with(|network, ctx| network.receive(ctx, id, &mut parts, peek))?;
        buffer.truncate(received.count);
        Ok((buffer, received))
    }

    fn read(&mut self, id: Id, most: usize) -> Outcome<Vec<u8>> {
        self.receive(id, most, false).map(|(bytes, _)| bytes)
    }

    /// Reads everything that is there.
    fn drain(&mut self, id: Id) -> Vec<u8> {
        let mut all = Vec::new();
        while let Ok(bytes) = self.read(id, 1 << 16)
            && !bytes.is_empty()
        {
            all.extend(bytes);
        }
        all
    }

    fn close(&mut self, id: Id) {
        self.with(|network, ctx| network.close(ctx, id));
    }

    fn shut_down(&mut self, id: Id, how: Shutdown) -> Outcome<()> {
        self.with(|network, ctx| network.shut_down(ctx, id, how))
    }

    fn is_ready(&mut self, id: Id, side: Interest) -> bool {
        self.with(|network, ctx| network.is_ready(ctx, id, side)).unwrap()
    }

    fn watch(&mut self, id: Id, side: Interest, number: u64) {
        self.network.watch(id, side, Watcher::Op(number));
    }

    /// Returns the ops that were told of changes since the last call.
    fn told(&mut self) -> Vec<u64> {
        let number = |watcher| match watcher {
            Watcher::Op(number) => number,
            Watcher::Ring(_) => panic!("these tests leave none"),
        };
        let mut told: Vec<u64> = self.told.drain(..).map(number).collect();
        told.sort_unstable();
        told
    }

    fn set_option(&mut self, id: Id, kind: OptionKind, value: OptionValue) -> Outcome<()> {
        self.with(|network, ctx| network.set_option(ctx, id, kind, value))
    }

    fn partition(&mut self, from: HostId, to: HostId) {
        self.with(|network, ctx| network.partition(ctx, from, to));
    }

    fn heal(&mut self) {
        self.with(|network, ctx| network.heal(ctx));
    }

    fn crash(&mut self, host: HostId) {
        self.with(|network, ctx| network.crash(ctx, host));
    }

    fn lose_power(&mut self, host: HostId) {
        self.with(|network, ctx| network.lose_power(ctx, host));
    }

    fn restart(&mut self, host: HostId) {
        self.with(|network, ctx| network.restart(ctx, host));
    }

    fn latency(&mut self, one: HostId, other: HostId, range: RangeInclusive<Duration>) {
        self.network.change_link(one, other, |link| link.latency = range.clone());
    }

    fn faults(&mut self, change: impl FnOnce(&mut NetworkFaults)) {
        let mut faults = NetworkFaults::default();
        change(&mut faults);
        self.network.set_faults(faults);
    }
}

#[test]
fn every_host_has_addresses_of_its_own_and_a_name() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    assert_eq!(one.addresses(), ["10.0.0.1", "fd00::1"].map(|ip| ip.parse::<IpAddr>().unwrap()));
    assert_eq!(other.addresses()[0].to_string(), "10.0.0.2");
    assert_eq!(lab.network.add_host("ONE"), None);
    let look_up = |name| lab.network.look_up(one, name).map(|ip| ip.to_string());
    assert_eq!(look_up("localhost").as_deref(), Some("127.0.0.1"));
    assert_eq!(look_up("Other").as_deref(), Some("10.0.0.2"));
    assert_eq!(look_up("nobody"), None);
    for host in [HostId::ROOT, one, other, HostId(400)] {
        assert_eq!(host.addresses().map(host::number_of), [Some(host), Some(host)]);
    }
    for (to, route) in [
        ("127.9.9.9", Route::Local),
        ("::1", Route::Local),
        ("10.0.0.1", Route::Local),
        ("10.0.0.2", Route::Host(other)),
        ("fd00::2", Route::Host(other)),
        ("10.0.0.3", Route::NoHost),
        ("10.0.0.0", Route::NoHost),
        ("8.8.8.8", Route::NoNetwork),
    ] {
        assert_eq!(lab.network.route(one, to.parse().unwrap()), route, "{to}");
    }
}

#[test]
fn options_are_kept_and_those_of_a_listener_are_inherited() {
    use crate::driver::request::{OptionKind as Kind, OptionValue as Value};
    let mut lab = Lab::new();
    let host = lab.host("host");
    let listener = lab.listener(host, 80);
    assert_eq!(lab.network.option(listener, Kind::NoDelay), Ok(Value::Flag(false)));
    lab.set_option(listener, Kind::NoDelay, Value::Flag(true)).unwrap();
    lab.set_option(listener, Kind::ReceiveBufferSize, Value::Size(5_000)).unwrap();
    let second = Duration::from_secs(1);
    lab.set_option(listener, Kind::KeepaliveTime, Value::Time(second + MS)).unwrap();
    assert_eq!(lab.network.option(listener, Kind::KeepaliveTime), Ok(Value::Time(2 * second)));
    for (kind, value) in [
        (Kind::TimeToLive, Value::Number(256)),
        (Kind::KeepaliveTime, Value::Time(Duration::ZERO)),
        (Kind::KeepaliveRetries, Value::Number(0)),
    ] {
        assert_eq!(lab.set_option(listener, kind, value), Err(Errno::INVAL));
    }
    let client = lab.stream(host);
    lab.connect(client, &v4(host, 80)).unwrap();
    let (server, _) = lab.network.accept(listener).unwrap();
    assert_eq!(lab.network.option(server, Kind::NoDelay), Ok(Value::Flag(true)));
    assert_eq!(lab.network.option(server, Kind::ReceiveBufferSize), Ok(Value::Size(10_000)));
    let (reader, _) = lab.network.open_pipe(host).unwrap();
    assert_eq!(lab.network.option(reader, Kind::NoDelay), Err(Errno::NOTSOCK));
}
