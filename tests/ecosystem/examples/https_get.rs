//! ureq over ecru, with TLS, against a server with httparse. Three requests run at once, on the
//! same thread.

use ecru::net::TcpListener;
use ecru_ecosystem::tls::Identity;
use ecru_ecosystem::{http, ureq_with};

fn main() -> Result<(), ureq::Error> {
    let identity = Identity::new();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    ecru::run(|| {
        ecru::try_scope(|s| {
            s.spawn(|| {
                for _ in 0..3 {
                    let stream = listener.accept()?.0;
                    // Runs until the client disconnects, which it does without notice.
                    s.spawn(|| {
                        let _ =
                            http::serve(identity.accept(stream), |path| format!("this is {path}"));
                        Ok(())
                    });
                }
                Ok(())
            });
            for page in ["one", "two", "three"] {
                let certificate = identity.certificate();
                s.spawn(move || {
                    let agent = ureq_with(certificate);
                    let answer = agent.get(format!("https://{address}/{page}")).call()?;
                    let status = answer.status();
                    println!("{status}: {}", answer.into_body().read_to_string()?);
                    Ok(())
                });
            }
            Ok(())
        })
    })
}
