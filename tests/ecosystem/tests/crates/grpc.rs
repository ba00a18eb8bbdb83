//! tonic over ecru's sockets, without a tokio runtime, and with tonic's own transport at one end.

use std::convert::Infallible;

use ecru::{Cancelled, block_on, channel};
use ecru_hyper::{client, serve};
use ecru_tokio::wait;
use http::Uri;
use tonic::service::Routes;
use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::support::{SHORT, each_run, listen};
use crate::words::{Words, WordsClient, WordsServer, items};

/// Runs `body` with the URL of the service over ecru's sockets.
fn with_service(body: impl Fn(&str) + Sync) {
    each_run(|| {
        let (listener, address) = listen();
        let (stop, stopped) = channel::bounded::<()>(0);
        ecru::scope(|s| {
            let routes = Routes::new(WordsServer::new(Words));
            let server = s.spawn(|| serve(&listener, routes).http2().stop_when(stopped).run());
            body(&format!("http://{address}"));
            drop(stop);
            // What was left of streams has ended.
            server.join().unwrap().unwrap();
        });
    });
}

/// A unary method, and streams in both directions, by twenty tasks over one connection.
#[test]
fn grpc_methods() {
    with_service(|url| {
        ecru::scope(|s| {
            let words = WordsClient::with_origin(client(s).http2().build(), url.parse().unwrap());
            ecru::scope(|s| {
                for number in 0..20 {
                    let mut words = words.clone();
                    s.spawn(move || {
                        let upper = block_on(words.upper(format!("word {number}"))).unwrap();
                        assert_eq!(upper.unwrap().into_inner(), format!("WORD {number}"));
                        let letters = block_on(words.letters(String::from("abc"))).unwrap();
                        let mut letters = letters.unwrap().into_inner();
                        for expected in ["a", "b", "c", "a"] {
                            let letter = block_on(letters.message()).unwrap().unwrap();
                            assert_eq!(letter.as_deref(), Some(expected));
                        }
                        // The rest of the endless stream is dropped here.
                        drop(letters);
                        let (say, said) = channel::bounded(1);
                        let echo = block_on(words.echo(items(said))).unwrap();
                        let mut echo = echo.unwrap().into_inner();
                        for round in 0..10 {
                            say.send(round.to_string()).unwrap();
                            let heard = block_on(echo.message()).unwrap().unwrap();
                            assert_eq!(heard, Some(round.to_string()));
                        }
                        drop(say);
                        assert_eq!(block_on(echo.message()).unwrap().unwrap(), None);
                    });
                }
            });
        });
    });
}

/// Errors of methods, a panic, a method that does not exist, a limit, and a server that is not there.
#[test]
fn grpc_failures() {
    with_service(|url| {
        ecru::scope(|s| {
            let http = client(s).http2().build();
            let mut words = WordsClient::with_origin(http.clone(), url.parse().unwrap());
            let mut code = |word: &str| {
                let status = block_on(words.upper(String::from(word))).unwrap().unwrap_err();
                (status.code(), status.message().to_owned())
            };
            assert_eq!(code(""), (Code::InvalidArgument, String::from("no word")));
            let (panicked, text) = code("panic");
            assert!(panicked == Code::Internal && text.contains("a panic of a method"), "{text}");
            let mut slow = words.clone();
            let limited = ecru::timeout(SHORT, || block_on(slow.upper(String::from("slow"))));
            assert!(limited.is_err());
            // The connection is still good.
            let upper = block_on(words.upper(String::from("word"))).unwrap().unwrap();
            assert_eq!(upper.into_inner(), "WORD");
            let nowhere = Uri::from_static("http://127.0.0.1:1");
            let mut nobody = WordsClient::with_origin(http, nowhere);
            let status = block_on(nobody.upper(String::new())).unwrap().unwrap_err();
            assert!(status.message().contains("refused"), "{status:?}");
            let cancelled: Result<(), Cancelled> = ecru::cancel_scope(|c| {
                c.cancel();
                block_on(words.upper(String::from("word"))).map(drop)
            });
            assert!(cancelled.is_err());
        });
    });
}

/// tonic's own client with a server over ecru's sockets, and the reverse.
#[test]
fn grpc_with_tonics_transport() {
    with_service(|url| {
        let endpoint = Endpoint::from_shared(String::from(url)).unwrap();
        let channel = wait(endpoint.connect()).unwrap().unwrap();
        let mut words = WordsClient::with_origin(channel, url.parse().unwrap());
        let upper = wait(words.upper(String::from("word"))).unwrap().unwrap();
        assert_eq!(upper.into_inner(), "WORD");
        let mut letters = wait(words.letters(String::from("abc"))).unwrap().unwrap().into_inner();
        assert_eq!(wait(letters.message()).unwrap().unwrap().as_deref(), Some("a"));
    });
    each_run(|| {
        ecru::scope(|s| {
            let listener = wait(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap().unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            s.spawn_daemon(move || {
                let service = service_fn(|request: http::Request<tonic::body::Body>| async {
                    let handler = service_fn(async |word: Request<String>| {
                        Ok::<_, Status>(Response::new(word.into_inner().to_uppercase()))
                    });
                    let codec = ProstCodec::<String, String>::default();
                    let mut server = tonic::server::Grpc::new(codec);
                    Ok::<_, Infallible>(server.unary(handler, request).await)
                });
                wait(Server::builder().serve_with_incoming(service, TcpIncoming::from(listener)))
            });
            let mut words =
                WordsClient::with_origin(client(s).http2().build(), url.parse().unwrap());
            let upper = block_on(words.upper(String::from("word"))).unwrap().unwrap();
            assert_eq!(upper.into_inner(), "WORD");
        });
    });
}
