//! Clients and a server that need tokio, by `ecru-tokio`, against real servers: twenty tasks at once,
//! with one worker and with two, and tasks that are cancelled among them.

use std::convert::Infallible;
use std::time::Duration;

use crate::support::{SHORT, each_run, listen};
use ecru_ecosystem::{http as server, servers};
use ecru_tokio::{enter, wait};
use http::uri::PathAndQuery;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::sqlite::SqlitePoolOptions;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

/// Twenty tasks that each do `task` several times. Every fourth one has a limit that passes at some
/// time, and must leave the others alone.
fn twenty(task: impl Fn(u32, u32) + Sync) {
    ecru::scope(|s| {
        for number in 0..20 {
            let task = &task;
            s.spawn(move || {
                for round in 0..10 {
                    if number % 4 == 0 {
                        let limit = Duration::from_micros(u64::from(round) * 150);
                        let _ = ecru::timeout(limit, || task_or_cancelled(|| task(number, round)));
                    } else {
                        task(number, round);
                    }
                }
            });
        }
    });
}

/// Runs a task whose waits may be cancelled, which it reports by a panic without a message.
fn task_or_cancelled(task: impl FnOnce()) {
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(task));
    if let Err(payload) = ended {
        assert!(payload.is::<ecru::Cancelled>(), "another panic than that of a cancellation");
    }
}

/// The output of a future. Unwinds if the wait was cancelled.
fn awaited<F: IntoFuture>(future: F) -> F::Output {
    wait(future).unwrap_or_else(|cancelled| std::panic::resume_unwind(Box::new(cancelled)))
}

#[test]
fn tokio_reqwest() {
    each_run(|| {
        let (listener, address) = listen();
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                listener.serve(100, |stream, _| {
                    let _ = server::serve(stream, |path| {
                        if path == "/slow" {
                            let _ = ecru::sleep(Duration::from_secs(3600));
                        }
                        format!("you asked for {path}")
                    });
                    Ok(())
                })
            });
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            twenty(|task, round| {
                let request = client.get(format!("http://{address}/{task}/{round}"));
                let text = awaited(async { request.send().await?.text().await }).unwrap();
                assert_eq!(text, format!("you asked for /{task}/{round}"));
            });
            let slow = client.get(format!("http://{address}/slow"));
            assert!(ecru::timeout(SHORT, || wait(slow.send())).is_err());
            drop(client);
        });
    });
}

#[test]
fn tokio_sqlx_postgres() {
    let Some(server) = servers::postgres() else { return };
    let options = PgConnectOptions::new_without_pgpass()
        .host("127.0.0.1")
        .port(server.address().port())
        .username(servers::USER)
        .password(servers::PASSWORD)
        .database("postgres")
        .ssl_mode(PgSslMode::Disable);
    each_run(|| {
        // It needs a runtime, and does not wait.
        let lazy = PgPoolOptions::new().max_connections(3);
        let pool = enter(|| lazy.connect_lazy_with(options.clone()));
        twenty(|task, round| {
            let both = sqlx::query_as::<_, (i32, i32)>("SELECT $1, $2").bind(task as i32);
            let both = awaited(both.bind(round as i32).fetch_one(&pool)).unwrap();
            assert_eq!(both, (task as i32, round as i32));
        });
        let slow = sqlx::query("SELECT pg_sleep(3600)");
        // sqlx leaves the query running, and the end of a pool would wait for it.
        let other = PgPoolOptions::new().max_connections(1);
        let other = enter(|| other.connect_lazy_with(options.clone()));
        assert!(ecru::timeout(SHORT, || wait(slow.execute(&other)).map(drop)).is_err());
        // A transaction that is cancelled is rolled back.
        let sum = wait(async {
            let mut connection = pool.begin().await?;
            sqlx::query("CREATE TEMP TABLE n AS SELECT generate_series(1, 10) AS n")
                .execute(&mut *connection)
                .await?;
            let sum: (i64,) =
                sqlx::query_as("SELECT sum(n) FROM n").fetch_one(&mut *connection).await?;
            connection.rollback().await?;
            Ok::<_, sqlx::Error>(sum.0)
        });
        assert_eq!(sum.unwrap().unwrap(), 55);
        wait(pool.close()).unwrap();
    });
}

#[test]
fn tokio_sqlx_sqlite() {
    each_run(|| {
        let options = SqlitePoolOptions::new().max_connections(1);
        let pool = wait(options.connect("sqlite::memory:")).unwrap().unwrap();
        let create = sqlx::query("CREATE TABLE words (task INTEGER, round INTEGER)");
        wait(create.execute(&pool)).unwrap().unwrap();
        twenty(|task, round| {
            let insert = sqlx::query("INSERT INTO words VALUES (?, ?)").bind(task).bind(round);
            awaited(insert.execute(&pool)).unwrap();
        });
        let count = "SELECT count(*) FROM words WHERE task % 4 <> 0";
        let count: (i64,) = wait(sqlx::query_as(count).fetch_one(&pool)).unwrap().unwrap();
        assert_eq!(count.0, 150);
        wait(pool.close()).unwrap();
    });
}

/// The method of a service, as generated code has it.
const UPPER: PathAndQuery = PathAndQuery::from_static("/words.Words/Upper");

fn upper(channel: &Channel, word: String) -> Result<String, Status> {
    awaited(async {
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<String, String>::default();
        client.unary(Request::new(word), UPPER, codec).await.map(Response::into_inner)
    })
}

#[test]
fn tokio_tonic() {
    each_run(|| {
        ecru::scope(|s| {
            let listener = wait(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap().unwrap();
            let address = listener.local_addr().unwrap();
            s.spawn_daemon(move || {
                let service = service_fn(|request: http::Request<tonic::body::Body>| async {
                    assert_eq!(request.uri().path(), UPPER.path());
                    let handler = service_fn(|word: Request<String>| async {
                        match word.into_inner().as_str() {
                            "" => Err(Status::invalid_argument("no word")),
                            word => Ok(Response::new(word.to_uppercase())),
                        }
                    });
                    let codec = ProstCodec::<String, String>::default();
                    let mut server = tonic::server::Grpc::new(codec);
                    Ok::<_, Infallible>(server.unary(handler, request).await)
                });
                let incoming = TcpIncoming::from(listener);
                wait(Server::builder().serve_with_incoming(service, incoming))
            });
            let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
            let channel = wait(endpoint.connect()).unwrap().unwrap();
            twenty(|task, round| {
                let answer = upper(&channel, format!("word {task} {round}")).unwrap();
                assert_eq!(answer, format!("WORD {task} {round}"));
            });
            let refused = upper(&channel, String::new()).unwrap_err();
            assert_eq!(refused.message(), "no word");
        });
    });
}
