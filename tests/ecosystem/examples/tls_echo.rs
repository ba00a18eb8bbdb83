//! rustls over ecru: an echo server, and two clients at once, on the same thread.

use std::io::{self, BufRead, BufReader, Write};

use ecru::net::{TcpListener, TcpStream};
use ecru_ecosystem::tls::Identity;

fn serve(identity: &Identity, stream: TcpStream) -> io::Result<()> {
    let mut stream = BufReader::new(identity.accept(stream));
    let mut line = String::new();
    stream.read_line(&mut line)?;
    stream.get_mut().write_all(line.to_uppercase().as_bytes())?;
    stream.get_mut().flush()
}

fn ask(identity: &Identity, address: std::net::SocketAddr, word: &str) -> io::Result<String> {
    let mut stream = identity.connect(TcpStream::connect(address)?);
    writeln!(stream, "{word}")?;
    let mut answer = String::new();
    BufReader::new(&mut stream).read_line(&mut answer)?;
    let suite = stream.conn.negotiated_cipher_suite().map(|suite| suite.suite());
    Ok(format!("{} ({suite:?})", answer.trim_end()))
}

fn main() -> io::Result<()> {
    let identity = Identity::new();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    ecru::run(|| {
        ecru::try_scope(|s| {
            s.spawn(|| {
                for _ in 0..2 {
                    let stream = listener.accept()?.0;
                    s.spawn(|| serve(&identity, stream));
                }
                Ok(())
            });
            let clients = ["undyed", "cloth"].map(|word| {
                let identity = &identity;
                s.spawn(move || ask(identity, address, word).map(|answer| println!("{answer}")))
            });
            clients.into_iter().try_for_each(|client| client.join().map_err(io::Error::other))
        })
    })
}
