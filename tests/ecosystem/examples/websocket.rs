//! tungstenite over ecru: a counting server, and two clients at once, on the same thread.

use ecru::net::{TcpListener, TcpStream};
use tungstenite::{Error, Message};

fn serve(stream: TcpStream) -> Result<(), Error> {
    let mut socket = tungstenite::accept(stream).map_err(std::io::Error::other)?;
    for number in 1..=3 {
        let asked = socket.read()?;
        socket.send(Message::text(format!("{asked}: {number}")))?;
    }
    socket.close(None)?;
    // The client's next message is the end.
    while socket.read().is_ok() {}
    Ok(())
}

fn ask(address: std::net::SocketAddr, word: &str) -> Result<(), Error> {
    let stream = TcpStream::connect(address)?;
    let url = format!("ws://{address}/");
    let (mut socket, _) = tungstenite::client(url, stream).map_err(std::io::Error::other)?;
    for _ in 0..3 {
        socket.send(Message::text(word))?;
        println!("{}", socket.read()?);
    }
    match socket.read() {
        Ok(Message::Close(_)) | Err(Error::ConnectionClosed) => Ok(()),
        other => other.map(drop),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    ecru::run(|| {
        ecru::try_scope(|s| {
            s.spawn(|| {
                for _ in 0..2 {
                    let stream = listener.accept()?.0;
                    s.spawn(|| serve(stream));
                }
                Ok::<_, Error>(())
            });
            s.spawn(|| ask(address, "undyed"));
            s.spawn(|| ask(address, "cloth"));
            Ok(())
        })
    })?;
    Ok(())
}
