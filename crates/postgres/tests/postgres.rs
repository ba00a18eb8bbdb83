//! The client against a real server, with one worker and with two.

#[path = "../../../tests/common/mod.rs"]
mod common;
#[allow(dead_code, unreachable_pub, missing_docs, reason = "it is a module of a library there")]
#[path = "../../../tests/ecosystem/src/servers.rs"]
mod servers;

use std::io::{self, Read};
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

use common::{each_run, ms, panic_text, quiet_panic, until};
use ecru::channel::RecvError;
use ecru::sync::Pool;
use ecru_postgres::tokio_postgres::Config;
use ecru_postgres::tokio_postgres::error::SqlState;
use ecru_postgres::{Client, Connector, Error};
use servers::{PASSWORD, Server, USER};

fn config(server: &Server) -> Config {
    let mut config = Config::new();
    config.host("127.0.0.1").port(server.address().port()).dbname("postgres");
    config.user(USER).password(PASSWORD);
    config
}

fn connect(server: &Server) -> Client {
    Connector::new(config(server)).connect().unwrap()
}

fn number(client: &mut Client, query: &str) -> i64 {
    client.query_one(query, &[]).unwrap().get(0)
}

/// A query that ends only when it is cancelled.
const FOREVER: &str = "SELECT pg_sleep(3600)";

/// Waits until the server is working on this many such queries.
fn until_asleep(watcher: &mut Client, count: i64) {
    let asked = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE query = '{FOREVER}' AND state = 'active'"
    );
    until(|| number(watcher, &asked) == count);
}

#[test]
fn queries() {
    let Some(server) = servers::postgres() else { return };
    let url = format!("postgres://{USER}:undyed%20cloth@{}/postgres", server.address());
    each_run(|| {
        let mut client = ecru_postgres::connect(&url).unwrap();
        let row = client.query_one("SELECT $1 * 7, NULL::text, 'ecru'", &[&6_i32]).unwrap();
        assert_eq!(row.get::<_, i32>(0), 42);
        assert_eq!((row.get::<_, Option<&str>>(1), row.get::<_, &str>(2)), (None, "ecru"));
        let many = "SELECT n, repeat('x', 1000) FROM generate_series(1, 2000) AS n";
        let rows = client.query(many, &[]).unwrap();
        assert_eq!((rows.len(), rows[1999].get::<_, i32>(0)), (2000, 2000));
        client.batch_execute("DROP TABLE IF EXISTS words; CREATE TABLE words (word text)").unwrap();
        let insert = client.prepare("INSERT INTO words VALUES ($1)").unwrap();
        for word in ["one", "two"] {
            assert_eq!(client.execute(&insert, &[&word]).unwrap(), 1);
        }
        let two = client.query_opt("SELECT word FROM words WHERE word = 'two'", &[]).unwrap();
        assert_eq!(two.unwrap().get::<_, &str>(0), "two");
        let three = client.query_opt("SELECT word FROM words WHERE word = 'three'", &[]).unwrap();
        assert!(three.is_none());
        // A refusal by the server is an error, and the connection stays usable.
        let refused = client.query("SELECT * FROM nowhere", &[]).unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::UNDEFINED_TABLE));
        assert!(refused.to_string().contains("nowhere"), "{refused}");
        let version = client.call(async |client| client.simple_query("SHOW server_version").await);
        assert!(!version.unwrap().is_empty() && !client.is_closed());
    });
}

/// A kept statement is prepared once, the oldest ones are forgotten, and one that a change of its
/// table has made useless can be prepared again.
#[test]
fn kept_statements() {
    let Some(server) = servers::postgres() else { return };
    each_run(|| {
        let mut client = connect(&server);
        let prepared =
            "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT %7'";
        for _ in 0..3 {
            let seven = client.prepare_cached("SELECT 7").unwrap();
            assert_eq!(client.query_one(&seven, &[]).unwrap().get::<_, i32>(0), 7);
            assert_eq!(number(&mut client, prepared), 1);
        }
        // 101 are one too many. The first one is used meanwhile, so another one is forgotten.
        for place in 0..100 {
            client.prepare_cached(&format!("SELECT {place} + 7")).unwrap();
            client.prepare_cached("SELECT 7").unwrap();
        }
        assert_eq!(number(&mut client, prepared), 100);
        let first = "SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT 0 + 7'";
        assert_eq!(number(&mut client, first), 0);
        assert!(client.prepare_cached("SELECT nothing").is_err());

        client.batch_execute("DROP TABLE IF EXISTS kinds; CREATE TABLE kinds (kind int)").unwrap();
        let all = client.prepare_cached("SELECT * FROM kinds").unwrap();
        client.query(&all, &[]).unwrap();
        client.batch_execute("ALTER TABLE kinds ALTER kind TYPE text").unwrap();
        let stale = client.query(&all, &[]).unwrap_err();
        assert_eq!(stale.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
        client.forget_statements();
        let all = client.prepare_cached("SELECT * FROM kinds").unwrap();
        assert!(client.query(&all, &[]).unwrap().is_empty());
    });
}

/// Kept statements that the server has forgotten, that were prepared in a transaction which is rolled
/// back, whose preparation was cancelled, and that another client is given.
#[test]
fn kept_statements_under_attack() {
    let Some(server) = servers::postgres() else { return };
    each_run(|| {
        let mut client = connect(&server);
        let seven = client.prepare_cached("SELECT 7").unwrap();
        client.batch_execute("DEALLOCATE ALL").unwrap();
        let again = client.prepare_cached("SELECT 7").unwrap();
        let gone = client.query(&again, &[]).unwrap_err();
        assert_eq!(gone.code(), Some(&SqlState::INVALID_SQL_STATEMENT_NAME), "{gone}");
        client.forget_statements();
        drop((seven, again));
        let seven = client.prepare_cached("SELECT 7").unwrap();
        assert_eq!(client.query_one(&seven, &[]).unwrap().get::<_, i32>(0), 7);
        // A statement of another client is refused, and harms neither.
        let mut other = connect(&server);
        let foreign = other.query(&seven, &[]).unwrap_err();
        assert_eq!(foreign.code(), Some(&SqlState::INVALID_SQL_STATEMENT_NAME), "{foreign}");
        assert_eq!(number(&mut other, "SELECT 8::int8"), 8);
        drop(other);
        // A preparation that is cancelled, at many places.
        for limit in 0..20 {
            let limited = ecru::timeout(Duration::from_micros(50 * limit), || {
                client.prepare_cached(&format!("SELECT {limit} + 1")).map(drop)
            });
            let _ = limited;
            let sum = client.prepare_cached(&format!("SELECT {limit} + 1")).unwrap();
            let row = client.query_one(&sum, &[]).unwrap();
            assert_eq!(row.get::<_, i32>(0), i32::try_from(limit).unwrap() + 1);
        }
        // The text is the key: what it means may change with the settings of the session.
        client.batch_execute("SET search_path = pg_catalog").unwrap();
        let seven = client.prepare_cached("SELECT 7").unwrap();
        assert_eq!(client.query_one(&seven, &[]).unwrap().get::<_, i32>(0), 7);
        // A parameter of another type is refused before it is sent.
        let text = client.prepare_cached("SELECT length($1)").unwrap();
        assert!(client.query(&text, &[&7_i32]).is_err());
        assert_eq!(client.query_one(&text, &[&"seven"]).unwrap().get::<_, i32>(0), 5);
    });
}

#[test]
fn failures_to_connect() {
    let Some(server) = servers::postgres() else { return };
    each_run(|| {
        let mut another = config(&server);
        another.password("another password");
        let refused = Connector::new(another).connect().unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::INVALID_PASSWORD), "{refused}");
        // The second host is tried if the first cannot be reached.
        let (listener, closed) = common::listen();
        drop(listener);
        let mut both = Config::new();
        both.host("127.0.0.1").port(closed.port()).host("127.0.0.1").port(server.address().port());
        both.user(USER).password(PASSWORD).dbname("postgres");
        assert_eq!(number(&mut Connector::new(both).connect().unwrap(), "SELECT 1::int8"), 1);
        let nobody = Config::new().host("127.0.0.1").port(closed.port()).user(USER).clone();
        let Error::Io(error) = Connector::new(nobody).connect().unwrap_err() else { panic!() };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        // A server that says nothing.
        let (_silent, address) = common::listen();
        let mut slow = Config::new();
        slow.host("127.0.0.1").port(address.port()).user(USER).connect_timeout(ms(5));
        let Error::Io(error) = Connector::new(slow).connect().unwrap_err() else { panic!() };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(matches!(
            "nonsense".parse::<Config>().map_err(Error::from),
            Err(Error::Postgres(_))
        ));
    });
}

/// A limit, or a cancellation, ends the query in the server. The connection is usable at once.
#[test]
fn cancellation() {
    let Some(server) = servers::postgres() else { return };
    each_run(|| {
        let mut client = connect(&server);
        let own = number(&mut client, "SELECT pg_backend_pid()::int8");
        let limited = ecru::timeout(ms(5), || client.query(FOREVER, &[]).unwrap_err());
        assert!(limited.is_err());
        assert_eq!(number(&mut client, "SELECT pg_backend_pid()::int8"), own);

        let mut watcher = connect(&server);
        ecru::scope(|s| {
            let mut client = connect(&server);
            let asleep = s.spawn(move || {
                let error = client.query(FOREVER, &[]).unwrap_err();
                // Every later call fails before it reaches the server.
                let again = client.execute("CREATE TABLE never (n int)", &[]).unwrap_err();
                (error, again, client)
            });
            until_asleep(&mut watcher, 1);
            asleep.cancel();
            let (error, again, mut client) = asleep.join().unwrap();
            assert!(matches!((error, again), (Error::Cancelled(_), Error::Cancelled(_))));
            until_asleep(&mut watcher, 0);
            let tables = "SELECT count(*) FROM pg_tables WHERE tablename = 'never'";
            assert_eq!(number(&mut client, tables), 0);
        });
    });
}

/// Clients that are cancelled again and again are always between two queries afterwards.
#[test]
fn a_storm_of_cancellations_slow() {
    let Some(server) = servers::postgres() else { return };
    each_run(|| {
        ecru::scope(|s| {
            for task in 0..4_u64 {
                let server = &server;
                s.spawn(move || {
                    let mut client = connect(server);
                    for round in 0..50_i64 {
                        let limit = Duration::from_micros(100 * (task + round as u64 % 20));
                        let _ = ecru::timeout(limit, || {
                            let _ = client.query("SELECT pg_sleep(0.001)", &[]);
                            client.query("SELECT pg_sleep(0.001)", &[])
                        });
                        let row = client.query_one("SELECT $1::int8", &[&round]).unwrap();
                        assert_eq!(row.get::<_, i64>(0), round);
                    }
                });
            }
        });
    });
}

#[test]
fn transactions() {
    let Some(server) = servers::postgres() else { return };
    each_run(|| {
        let (mut client, mut watcher) = (connect(&server), connect(&server));
        client.batch_execute("DROP TABLE IF EXISTS n; CREATE TABLE n (n int)").unwrap();
        let insert = |client: &mut Client| client.execute("INSERT INTO n VALUES (1)", &[]);
        let mut rows = || number(&mut watcher, "SELECT count(*) FROM n");

        let committed: Result<u64, Error> = client.transaction(|t| {
            insert(t)?;
            assert_eq!(rows(), 0);
            insert(t)
        });
        assert_eq!((committed.unwrap(), rows()), (1, 2));

        let failed: Result<(), Error> = client.transaction(|t| {
            insert(t)?;
            t.query("SELECT * FROM nowhere", &[]).map(drop)
        });
        assert_eq!((failed.unwrap_err().code(), rows()), (Some(&SqlState::UNDEFINED_TABLE), 2));

        let text = panic_text(|| {
            client.transaction(|t| -> Result<(), Error> {
                insert(t)?;
                quiet_panic("inside")
            })
        });
        assert_eq!((text.as_str(), rows()), ("inside", 2));

        // A savepoint is rolled back alone.
        client
            .transaction(|t| {
                insert(t)?;
                let inner: Result<(), Error> = t.transaction(|t| {
                    insert(t)?;
                    t.query("SELECT * FROM nowhere", &[]).map(drop)
                });
                assert!(inner.is_err());
                t.transaction(|t| insert(t))
            })
            .unwrap();
        assert_eq!(rows(), 4);

        // A cancelled one is rolled back, and the client is usable.
        let limited = ecru::timeout(ms(5), || {
            client.transaction(|t| {
                insert(t)?;
                t.query(FOREVER, &[]).map(drop)
            })
        });
        assert!(limited.is_err());
        assert_eq!(number(&mut client, "SELECT count(*) FROM n"), 4);
        client.transaction(|t| insert(t)).unwrap();
        assert_eq!(rows(), 5);
    });
}

/// Copies go both ways. A reader, a writer or a cancellation that ends one leaves the client usable.
#[test]
fn copies() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer[..2].copy_from_slice(b"1\n");
            match ecru::yield_now() {
                Ok(()) => Err(io::ErrorKind::PermissionDenied.into()),
                Err(cancelled) => Err(cancelled.into()),
            }
        }
    }
    impl io::Write for Fails {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::PermissionDenied.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let Some(server) = servers::postgres() else { return };
    each_run(|| {
        let mut client = connect(&server);
        client.batch_execute("DROP TABLE IF EXISTS n; CREATE TABLE n (n int)").unwrap();
        let lines: String = (0..50_000).map(|n| format!("{n}\n")).collect();
        assert_eq!(client.copy_in("COPY n FROM STDIN", lines.as_bytes()).unwrap(), 50_000);
        let mut back = Vec::new();
        let bytes = client.copy_out("COPY n TO STDOUT", &mut back).unwrap();
        assert_eq!((bytes, back), (lines.len() as u64, lines.into_bytes()));

        let Error::Io(error) = client.copy_in("COPY n FROM STDIN", Fails).unwrap_err() else {
            panic!()
        };
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let endless = "COPY (SELECT generate_series(1, 1000000000)) TO STDOUT";
        let Error::Io(error) = client.copy_out(endless, Fails).unwrap_err() else { panic!() };
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let limited = ecru::timeout(ms(5), || client.copy_out(endless, io::sink()));
        assert!(limited.is_err());
        let wrong = client.copy_in("COPY n FROM STDIN", &b"a word\n"[..]).unwrap_err();
        assert_eq!(wrong.code(), Some(&SqlState::INVALID_TEXT_REPRESENTATION));
        assert_eq!(number(&mut client, "SELECT count(*) FROM n"), 50_000);
    });
}

/// Notifications arrive in order at the receivers of their channel, until the connection ends.
#[test]
fn notifications() {
    let Some(server) = servers::postgres() else { return };
    each_run(|| {
        let (mut client, mut other) = (connect(&server), connect(&server));
        let (words, again) = (client.listen("words").unwrap(), client.listen("words").unwrap());
        let odd = client.listen("an \"odd\" name").unwrap();
        for word in 0..10 {
            other.batch_execute(&format!("NOTIFY words, '{word}'")).unwrap();
        }
        other.batch_execute("NOTIFY silence; NOTIFY \"an \"\"odd\"\" name\", 'end'").unwrap();
        for word in 0..10 {
            assert_eq!(words.recv().unwrap().payload(), word.to_string());
        }
        assert_eq!(odd.recv().unwrap().payload(), "end");
        drop(words);
        other.batch_execute("NOTIFY words, 'last'").unwrap();
        assert_eq!(again.iter().nth(10).unwrap().payload(), "last");
        // The server ends the connection.
        let own: i32 = client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
        other.query("SELECT pg_terminate_backend($1)", &[&own]).unwrap();
        assert!(matches!(again.recv(), Err(RecvError::Disconnected)));
        assert!(client.query("SELECT 1", &[]).is_err() && client.is_closed());
    });
}

/// Twenty tasks share three connections, also when they are cancelled in the middle of a query, and
/// when the server ends the connections.
#[test]
fn pools() {
    let Some(server) = servers::postgres() else { return };
    each_run(|| {
        let pool: Pool<Client, Error> = Connector::new(config(&server)).pool(3);
        let mut watcher = connect(&server);
        ecru::scope(|s| {
            for task in 0..20_i64 {
                let pool = &pool;
                s.spawn(move || {
                    if task % 4 == 0 {
                        let limited = ecru::timeout(ms(2), || {
                            pool.get().map(|mut client| drop(client.query(FOREVER, &[])))
                        });
                        assert!(limited.is_err());
                    }
                    let row = pool.get().unwrap().query_one("SELECT $1::int8", &[&task]).unwrap();
                    assert_eq!(row.get::<_, i64>(0), task);
                });
            }
        });
        let idle = pool.idle();
        assert!((1..=3).contains(&idle), "{idle}");
        let own = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND \
                   pid <> pg_backend_pid()";
        watcher.query(&format!("SELECT pg_terminate_backend(pid) {own}"), &[]).unwrap();
        until(|| number(&mut watcher, &format!("SELECT count(*) {own}")) == 0);
        // The end may not have arrived yet. A query tells.
        for _ in 0..idle {
            if let Ok(mut client) = pool.get() {
                let _ = client.query("SELECT 1", &[]);
            }
        }
        assert_eq!(number(&mut pool.get().unwrap(), "SELECT 7::int8"), 7);
    });
}

/// A server that does not end a cancelled query: the call returns after its patience, and the client
/// is closed.
#[test]
fn a_server_that_stands_still_slow() {
    use rustix::process::{Pid, Signal, kill_process};
    let Some(server) = servers::postgres() else { return };
    each_run(|| {
        let (mut client, mut watcher) = (connect(&server), connect(&server));
        let own: i32 = client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
        let process = Pid::from_raw(own).unwrap();
        ecru::scope(|s| {
            let asleep = s.spawn(move || {
                let error = client.query(FOREVER, &[]).unwrap_err();
                (error, client)
            });
            until_asleep(&mut watcher, 1);
            kill_process(process, Signal::STOP).unwrap();
            asleep.cancel();
            let (error, mut client) = asleep.join().unwrap();
            assert!(matches!(error, Error::Cancelled(_)), "{error}");
            assert!(client.is_closed());
            assert!(matches!(client.query("SELECT 1", &[]), Err(Error::Closed)));
            kill_process(process, Signal::CONT).unwrap();
        });
    });
}

/// Dropped clients leave no connection, and the run ends.
#[test]
fn dropped_clients() {
    let Some(server) = servers::postgres() else { return };
    each_run(|| {
        let mut watcher = connect(&server);
        for _ in 0..5 {
            number(&mut connect(&server), "SELECT 1::int8");
        }
        let others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
        until(|| number(&mut watcher, others) == 1);
    });
}

#[cfg(feature = "tls")]
#[test]
fn tls() {
    use ecru_postgres::tokio_postgres::config::SslMode;
    use rustls::crypto::ring;
    use rustls::{ClientConfig, RootCertStore};

    let names = ["localhost", "127.0.0.1"].map(String::from);
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let Some(server) =
        servers::postgres_with_tls(&made.cert.pem(), &made.signing_key.serialize_pem())
    else {
        return;
    };
    let settings = |trusts: bool| {
        let mut roots = RootCertStore::empty();
        if trusts {
            roots.add(made.cert.der().clone()).unwrap();
        }
        let settings = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(settings)
    };
    each_run(|| {
        let mut config = config(&server);
        config.ssl_mode(SslMode::Require);
        let mut client = Connector::new(config.clone()).tls(settings(true)).connect().unwrap();
        let row = client.query_one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]);
        assert!(row.unwrap().get::<_, bool>(0));
        let limited = ecru::timeout(ms(20), || client.query(FOREVER, &[]).unwrap_err());
        assert!(limited.is_err() && !client.is_closed());
        assert_eq!(number(&mut client, "SELECT 7::int8"), 7);
        assert!(Connector::new(config.clone()).tls(settings(false)).connect().is_err());
        assert!(Connector::new(config).connect().is_err());
    });
}

/// A Unix socket, for which the password is asked, too.
#[test]
fn unix_sockets() {
    let Some(server) = servers::postgres() else { return };
    each_run(|| {
        let mut config = Config::new();
        config.host_path(server.folder()).port(server.address().port()).dbname("postgres");
        config.user(USER).password(PASSWORD);
        let mut client = Connector::new(config).connect().unwrap();
        let limited = ecru::timeout(ms(5), || client.query(FOREVER, &[]).unwrap_err());
        assert!(limited.is_err());
        assert_eq!(number(&mut client, "SELECT 7::int8"), 7);
    });
}
