//! ureq as the client, with TLS, and a server with httparse.

use std::time::Duration;

use crate::support::{SHORT, assert_timed_out, each_run, interrupted, listen, pair, two_at_once};
use ecru_ecosystem::tls::Identity;
use ecru_ecosystem::{http, ureq_with};

#[test]
fn http_two_clients_at_once_with_tls() {
    let identity = Identity::new();
    let serve = |stream| {
        // A client that disconnects is no reason for a panic here.
        let _ = http::serve(identity.accept(stream), |path| format!("you asked for {path}"));
    };
    two_at_once(serve, |client, address| {
        let agent = ureq_with(identity.certificate());
        // The second request reuses the connection of the first.
        for round in 0..2 {
            let url = format!("https://{address}/{client}/{round}");
            let answer = agent.get(url).call().unwrap();
            assert_eq!(answer.status(), 200);
            let text = answer.into_body().read_to_string().unwrap();
            assert_eq!(text, format!("you asked for /{client}/{round}"));
        }
    });
}

#[test]
fn http_silent_server() {
    let identity = Identity::new();
    each_run(|| {
        let (_listener, address) = listen();
        // A time limit of ecru around a call ..
        let agent = ureq_with(identity.certificate());
        let failed = interrupted(|| agent.get(format!("https://{address}/")).call().unwrap_err());
        let ureq::Error::Io(error) = failed else { panic!("{failed:?}") };
        assert_timed_out(&error);
        // .. and one of ureq's own.
        let request = agent.get(format!("http://{address}/")).config();
        let failed = request.timeout_global(Some(SHORT)).build().call().unwrap_err();
        assert!(matches!(failed, ureq::Error::Timeout(_)), "{failed:?}");
    });
}

#[test]
fn http_server_with_a_silent_client() {
    each_run(|| {
        let (mut ours, theirs) = pair();
        std::io::Write::write_all(&mut ours, b"GET /half HTT").unwrap();
        let error = interrupted(|| http::serve(theirs, |_| String::new()).unwrap_err());
        assert_timed_out(&error);
    });
}

/// The client trusts only certificates that it was given.
#[test]
fn http_another_certificate() {
    let (identity, another) = (Identity::new(), Identity::new());
    each_run(|| {
        let (listener, address) = listen();
        ecru::scope(|s| {
            s.spawn(|| {
                let stream = identity.accept(listener.accept().unwrap().0);
                assert!(http::serve(stream, |_| String::from("secret")).is_err());
            });
            let agent = ureq_with(another.certificate());
            let failed = ecru::timeout(Duration::from_secs(60), || {
                agent.get(format!("https://{address}/")).call()
            });
            assert!(failed.unwrap().is_err());
        });
    });
}
