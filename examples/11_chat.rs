//! A chat server over TCP: every line is sent to all guests. In this example there are two guests,
//! with a script.

use ecru::channel::{self, Sender};
use ecru::net::{TcpListener, TcpStream};
use ecru::sync::Mutex;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;

/// The guests, each with the sender of its lines.
type Room = Mutex<BTreeMap<String, Sender<String>>>;

fn tell_all(room: &Room, name: &str, text: &str) {
    println!("{name}: {text}");
    for guest in room.lock().values() {
        // Never waits. A guest that does not read loses lines, and delays no other guest.
        _ = guest.send(format!("{name}: {text}\n"));
    }
}

/// Serves one guest, whose first line is its name. This task reads, and another one writes.
fn host(room: &Room, mut stream: &TcpStream) -> io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let name = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
    let (sender, letters) = channel::dropping::<String>(100);
    ecru::scope(|s| {
        s.spawn(move || letters.into_iter().try_for_each(|line| stream.write_all(line.as_bytes())));
        room.lock().insert(name.clone(), sender);
        tell_all(room, &name, "is here");
        let end = lines.try_for_each(|line| line.map(|text| tell_all(room, &name, &text)));
        room.lock().remove(&name); // this drops the last sender, so the writer ends
        tell_all(room, &name, "has left");
        end
    })
}

fn serve(listener: &TcpListener, room: &Room) {
    ecru::scope(|s| {
        while let Ok((stream, _)) = listener.accept() {
            s.spawn(move || host(room, &stream));
        }
    });
}

/// Enters the room as a guest. When the earlier guests have been told, the server knows the name.
fn enter(address: SocketAddr, name: &str) -> io::Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(address)?;
    writeln!(stream, "{name}")?;
    Ok(BufReader::new(stream))
}

fn hears(guest: &mut impl BufRead, expected: &str) -> io::Result<()> {
    let mut line = String::new();
    guest.read_line(&mut line)?;
    if line.trim_end() == expected { Ok(()) } else { Err(io::Error::other(line)) }
}

fn evening(address: SocketAddr) -> io::Result<()> {
    let mut ada = enter(address, "Ada")?;
    hears(&mut ada, "Ada: is here")?;
    let mut ben = enter(address, "Ben")?;
    hears(&mut ada, "Ben: is here")?;
    writeln!(ada.get_mut(), "Good evening, Ben!")?;
    hears(&mut ben, "Ben: is here")?;
    hears(&mut ben, "Ada: Good evening, Ben!")?;
    drop(ada);
    hears(&mut ben, "Ada: has left")
}

fn main() -> io::Result<()> {
    ecru::run(|| {
        let (listener, room) = (TcpListener::bind("127.0.0.1:0")?, Room::default());
        let address = listener.local_addr()?;
        ecru::scope(|s| {
            s.spawn_daemon(|| serve(&listener, &room));
            ecru::timeout(std::time::Duration::from_secs(10), || evening(address))?
        })
    })
}
