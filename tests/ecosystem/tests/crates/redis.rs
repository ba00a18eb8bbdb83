//! The `redis` crate's commands and replies, against a real server.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::support::{each_run, interrupted};
use ecru_ecosystem::redis_over_ecru::Redis;
use ecru_ecosystem::servers;
use redis::{RedisError, Value, cmd};

#[test]
fn redis_commands_on_two_connections() {
    let Some(server) = servers::redis() else { return };
    each_run(|| {
        ecru::scope(|s| {
            for name in ["one", "two"] {
                let address = server.address();
                s.spawn(move || {
                    let mut redis = Redis::connect(address).unwrap();
                    let _: () = redis.query(cmd("DEL").arg(name)).unwrap();
                    for count in 1..=50 {
                        let reached: i64 = redis.query(cmd("INCR").arg(name)).unwrap();
                        assert_eq!(reached, count);
                    }
                    let long = "x".repeat(100_000);
                    let _: () = redis.query(cmd("SET").arg(name).arg(&long)).unwrap();
                    assert_eq!(redis.query::<String>(cmd("GET").arg(name)).unwrap(), long);
                    let missing: Option<String> =
                        redis.query(cmd("GET").arg("no such key")).unwrap();
                    assert_eq!(missing, None);
                    let mut pipe = redis::pipe();
                    pipe.cmd("ECHO").arg(name).cmd("STRLEN").arg(name).cmd("INCR").arg(name);
                    let replies = redis.pipeline(&pipe).unwrap();
                    assert_eq!(
                        replies[..2],
                        [Value::BulkString(name.into()), Value::Int(100_000),]
                    );
                    assert!(matches!(replies[2], Value::ServerError(_)), "{replies:?}");
                    // A refusal by the server is an error, and the connection stays usable.
                    assert!(redis.query::<i64>(cmd("INCR").arg(name)).is_err());
                    assert_eq!(redis.query::<String>(&cmd("PING")).unwrap(), "PONG");
                });
            }
        });
    });
}

/// A task waits for a list that stays empty, and a limit or a cancellation ends the wait.
#[test]
fn redis_time_limit_and_cancellation() {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    let Some(server) = servers::redis() else { return };
    each_run(|| {
        let waits = || cmd("BLPOP").arg("a list that stays empty").arg(0).clone();
        let mut redis = Redis::connect(server.address()).unwrap();
        let failed = interrupted(|| redis.query::<Value>(&waits()).unwrap_err());
        assert_cancelled(&failed);

        let name = format!("parked-{}", NAMES.fetch_add(1, Relaxed));
        ecru::scope(|s| {
            let parked = s.spawn(|| {
                let mut redis = Redis::connect(server.address()).unwrap();
                let _: () = redis.query(cmd("CLIENT").arg("SETNAME").arg(&name)).unwrap();
                redis.query::<Value>(&waits()).unwrap_err()
            });
            let mut other = Redis::connect(server.address()).unwrap();
            // Waits until the server reports a blocked client.
            let mut is_blocked = || {
                let clients: String = other.query(cmd("CLIENT").arg("LIST")).unwrap();
                let named = |line: &&str| line.contains(&format!(" name={name} "));
                clients.lines().find(named).is_some_and(|line| line.contains(" cmd=blpop "))
            };
            while !is_blocked() {
                ecru::yield_now().unwrap();
            }
            parked.cancel();
            assert_cancelled(&parked.join().unwrap());
        });
    });
}

/// The crate keeps a stream error in an `Arc` that other code cannot inspect, and exposes its text.
#[track_caller]
fn assert_cancelled(error: &RedisError) {
    assert!(error.is_io_error(), "{error}");
    assert!(error.to_string().contains("cancelled: "), "{error}");
}

/// If a test panics, its server is stopped and its folder removed.
#[test]
fn redis_is_stopped_by_a_panic() {
    let Some(server) = servers::redis() else { return };
    let (address, folder) = (server.address(), server.folder().to_owned());
    assert!(Redis::connect(address).is_ok() && folder.is_dir());
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _server = server;
        resume_unwind(Box::new("without a message"));
    }));
    assert!(panicked.is_err());
    assert!(Redis::connect(address).is_err());
    assert!(!folder.exists());
}
