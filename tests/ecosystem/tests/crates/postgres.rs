//! `postgres-protocol`'s messages, against a real server.

use crate::support::{assert_timed_out, each_run, interrupted};
use ecru_ecosystem::postgres_over_ecru::Postgres;
use ecru_ecosystem::servers::{self, PASSWORD, USER};

#[test]
fn postgres_queries_on_two_connections() {
    let Some(server) = servers::postgres() else { return };
    each_run(|| {
        ecru::scope(|s| {
            for name in ["one", "two"] {
                let address = server.address();
                s.spawn(move || {
                    let mut postgres = Postgres::connect(address, USER, PASSWORD).unwrap();
                    let rows = postgres.query("SELECT 6 * 7, NULL, 'ecru'").unwrap();
                    assert_eq!(rows, [[Some("42".into()), None, Some("ecru".into())]]);
                    let many = "SELECT n, repeat('x', 1000) FROM generate_series(1, 2000) AS n";
                    let rows = postgres.query(many).unwrap();
                    assert_eq!(rows.len(), 2000);
                    assert_eq!(rows[1999][0].as_deref(), Some("2000"));
                    postgres.query(&format!("DROP TABLE IF EXISTS {name}")).unwrap();
                    postgres.query(&format!("CREATE TABLE {name} (word text)")).unwrap();
                    postgres.query(&format!("INSERT INTO {name} VALUES ('{name}')")).unwrap();
                    let rows = postgres.query(&format!("SELECT * FROM {name}")).unwrap();
                    assert_eq!(rows, [[Some(name.to_owned())]]);
                    // A refusal by the server is an error, and the connection stays usable.
                    let refused = postgres.query("SELECT * FROM nowhere").unwrap_err();
                    assert!(refused.to_string().contains("nowhere"), "{refused}");
                    assert_eq!(postgres.query("SELECT 1").unwrap(), [[Some("1".into())]]);
                });
            }
        });
        let refused = Postgres::connect(server.address(), USER, "another password").unwrap_err();
        assert!(refused.to_string().contains("password"), "{refused}");
    });
}

/// A limit ends the wait for a slow query. The next read would see the rest of its answer.
#[test]
fn postgres_time_limit_and_cancellation() {
    let Some(server) = servers::postgres() else { return };
    each_run(|| {
        let connect = || Postgres::connect(server.address(), USER, PASSWORD).unwrap();
        let mut postgres = connect();
        let failed = interrupted(|| postgres.query("SELECT pg_sleep(3600)").unwrap_err());
        assert_timed_out(&failed);

        ecru::scope(|s| {
            let parked =
                s.spawn(|| connect().query("SELECT pg_sleep(3600), 'parked'").unwrap_err());
            let mut other = connect();
            let asked = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%3600), ''parked''%' AND \
                         pid <> pg_backend_pid() AND state = 'active'";
            while other.query(asked).unwrap().is_empty() {
                ecru::yield_now().unwrap();
            }
            parked.cancel();
            assert!(ecru::Cancelled::find(&parked.join().unwrap()).is_some());
            // The server does not notice by itself. The queries end with its connections.
            let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE \
                         '%pg_sleep(3600)%' AND pid <> pg_backend_pid()";
            assert!(!other.query(ended).unwrap().is_empty());
        });
    });
}
