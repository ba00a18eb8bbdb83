//! NUL bytes in whatever the API takes as a name. std refuses each with `InvalidInput`.

use std::fmt::Debug;
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;

use ecru::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use ecru::process::Command;
use ecru::sim::Simulation;
use ecru::{RuntimeHandle, fs};

use super::on_each_driver;

#[track_caller]
fn refused<T: Debug>(result: io::Result<T>) {
    assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
}

const NAME: &str = "with\0zero";

#[track_caller]
fn paths() {
    refused(fs::File::open(NAME));
    refused(fs::File::create(NAME));
    refused(fs::File::create_new(NAME));
    refused(fs::read(NAME));
    refused(fs::read_to_string(NAME));
    refused(fs::write(NAME, "x"));
    refused(fs::metadata(NAME));
    refused(fs::symlink_metadata(NAME));
    refused(fs::exists(NAME));
    refused(fs::read_dir(NAME));
    refused(fs::create_dir(NAME));
    refused(fs::create_dir_all(NAME));
    refused(fs::create_dir_all(format!("/tmp/{NAME}/below")));
    refused(fs::remove_dir(NAME));
    refused(fs::remove_dir_all(NAME));
    refused(fs::remove_file(NAME));
    refused(fs::canonicalize(NAME));
    refused(fs::read_link(NAME));
    refused(fs::copy(NAME, "/tmp/elsewhere"));
    refused(fs::rename(NAME, "/tmp/elsewhere"));
    refused(fs::rename("/tmp/nowhere-at-all", NAME));
    refused(fs::hard_link("/tmp/nowhere-at-all", NAME));
    refused(UnixStream::connect(NAME));
    refused(UnixListener::bind(NAME));
    refused(UnixDatagram::bind(NAME));
}

#[test]
fn paths_with_a_zero_byte() {
    on_each_driver(1, || {
        paths();
        ecru::scope(|s| s.spawn(paths).join().unwrap());
    });
    paths();
}

#[test]
fn paths_with_a_zero_byte_in_a_simulation() {
    Simulation::new(1).run(paths).unwrap();
}

/// A lookup of such a name fails; it is not sent to the resolver cut short.
#[test]
fn lookups_with_a_zero_byte() {
    let names = || {
        for name in ["127.0.0.1\0:80", "localhost\0.example:80", "\0:80"] {
            refused(TcpStream::connect(name));
            refused(TcpListener::bind(name));
            refused(UdpSocket::bind(name));
        }
        refused(TcpStream::connect(("localhost\0", 80)));
        refused(TcpStream::connect((String::from("local\0host"), 80)));
    };
    on_each_driver(1, names);
    names();
}

#[test]
fn commands_with_a_zero_byte() {
    let commands = || {
        refused(Command::new("tr\0ue").status());
        refused(Command::new("true").arg("a\0b").status());
        refused(Command::new("true").env("A\0", "b").output());
        refused(Command::new("true").env("A", "b\0").spawn());
        refused(Command::new("true").current_dir("/\0").spawn());
        assert!(Command::new("true").status().unwrap().success());
    };
    on_each_driver(1, commands);
    commands();
}

/// An abstract name may have them, and they count.
#[test]
fn abstract_names_with_a_zero_byte() {
    on_each_driver(1, || {
        let name = |end: &str| {
            let name = format!("\0ecru\0{}{end}", std::process::id());
            SocketAddr::from_abstract_name(name).unwrap()
        };
        let listener = UnixListener::bind_addr(&name("\0a")).unwrap();
        let error = UnixStream::connect_addr(&name("\0b")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        UnixStream::connect_addr(&name("\0a")).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(address.as_abstract_name(), name("\0a").as_abstract_name());
    });
}

/// Tasks may have any name. A dump shows it, whatever it is.
#[test]
fn tasks_with_odd_names() {
    let long = "n".repeat(1 << 20);
    let names = ["", "\0", "a\0b\nc", "\u{1b}[31m", &long];
    crate::common::run_on(1, || {
        ecru::scope(|s| {
            for name in names {
                s.builder().name(name).spawn(crate::common::forever);
            }
            crate::common::settle();
            let tree = RuntimeHandle::current().dump();
            for name in names {
                assert!(tree.tasks().any(|task| task.name() == Some(name)));
            }
            assert!(tree.to_string().len() > long.len());
            s.cancel();
            let panics = s.builder().name("a\0b").spawn(|| crate::common::quiet_panic("x"));
            assert!(panics.join().is_err());
        });
    });
}

/// The hosts of a simulation are no threads.
#[test]
fn hosts_with_odd_names() {
    let report = Simulation::new(3).run(|| {
        for name in ["a\0b", "", "c\nd"] {
            let host = ecru::sim::host(name, || {
                assert!(ecru::sleep(crate::common::HOUR).is_err());
                Ok(())
            });
            assert_eq!(host.name(), name);
        }
        ecru::sleep(crate::common::ms(5)).unwrap();
    });
    report.unwrap();
}

/// Names of a runtime that no thread can have. std's threads take names of any length.
#[test]
fn runtimes_with_odd_names() {
    let build = |name: &str| ecru::Runtime::builder().workers(2).name(name).build();
    for name in ["\0", "a\0", "\0a", "worker\0\0"] {
        refused(build(name).map(drop));
    }
    for name in ["", "\n", "ü", &"long".repeat(1000)] {
        let runtime = build(name).unwrap();
        assert_eq!(runtime.run(|| ecru::unblock(|| 7)), 7);
    }
}
