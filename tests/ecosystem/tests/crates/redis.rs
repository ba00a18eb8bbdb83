//! The `redis` crate's commands and replies over ecru, and its asynchronous client, against a real
//! server.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::support::{SHORT, each_run, interrupted};
use ecru::sync::Pool;
use ecru_ecosystem::redis_over_ecru::Redis;
use ecru_ecosystem::servers;
use redis::{AsyncCommands, Client, Commands, ConnectionLike, RedisError, Value, cmd};

#[test]
fn redis_commands_on_two_connections() {
    let Some(server) = servers::redis() else { return };
    each_run(|| {
        ecru::scope(|s| {
            for name in ["one", "two"] {
                let address = server.address();
                s.spawn(move || {
                    let mut redis = Redis::connect(address).unwrap();
                    let _: i64 = redis.del(name).unwrap();
                    for count in 1..=50_i64 {
                        assert_eq!(redis.incr::<_, _, i64>(name, 1).unwrap(), count);
                    }
                    let long = "x".repeat(100_000);
                    let _: () = redis.set(name, &long).unwrap();
                    assert_eq!(redis.get::<_, String>(name).unwrap(), long);
                    assert_eq!(redis.get::<_, Option<String>>("no such key").unwrap(), None);
                    let mut pipe = redis::pipe();
                    pipe.cmd("ECHO").arg(name).cmd("STRLEN").arg(name);
                    let replies: (String, u32) = pipe.query(&mut redis).unwrap();
                    assert_eq!(replies, (name.to_owned(), 100_000));
                    let mut atomic = redis::pipe();
                    atomic.atomic().set(name, 7).incr(name, 1).ignore().get(name);
                    let replies: (String, u32) = atomic.query(&mut redis).unwrap();
                    assert_eq!(replies.1, 8);
                    // A refusal by the server is an error, and the connection stays usable.
                    let _: () = redis.set(name, "a word").unwrap();
                    assert!(redis.incr::<_, _, i64>(name, 1).is_err());
                    assert!(redis.is_open() && redis.check_connection());
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
        let failed = interrupted(|| waits().query::<Value>(&mut redis).unwrap_err());
        assert_cancelled(&failed);
        // Its reply may still come.
        assert!(!redis.is_open());

        let name = format!("parked-{}", NAMES.fetch_add(1, Relaxed));
        ecru::scope(|s| {
            let parked = s.spawn(|| {
                let mut redis = Redis::connect(server.address()).unwrap();
                let _: () = redis.client_setname(&name).unwrap();
                waits().query::<Value>(&mut redis).unwrap_err()
            });
            let mut other = Redis::connect(server.address()).unwrap();
            // Waits until the server reports a blocked client.
            let mut is_blocked = || {
                let clients: String = cmd("CLIENT").arg("LIST").query(&mut other).unwrap();
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

/// Twenty tasks share three connections. One that was left in the middle of a reply is replaced.
#[test]
fn redis_pool() {
    let Some(server) = servers::redis() else { return };
    let address = server.address();
    each_run(|| {
        let pool: Pool<Redis, RedisError> = Pool::builder(3)
            .validate(|redis: &mut Redis| redis.is_open())
            .build(move || Redis::connect(address));
        let _: () = pool.get().unwrap().set("sum", 0).unwrap();
        ecru::scope(|s| {
            for _ in 0..20 {
                s.spawn(|| {
                    let _: i64 = pool.get().unwrap().incr("sum", 1).unwrap();
                    let mut redis = pool.get().unwrap();
                    let silence = cmd("BLPOP").arg("silence").arg(0).clone();
                    let limited = ecru::timeout(SHORT, || silence.query::<Value>(&mut *redis));
                    assert!(limited.is_err());
                });
            }
        });
        assert_eq!(pool.get().unwrap().get::<_, i64>("sum").unwrap(), 20);
    });
}

/// The crate's asynchronous client, on tokio's reactor: twenty tasks share one connection.
#[test]
fn redis_by_its_own_client() {
    let Some(server) = servers::redis() else { return };
    each_run(|| {
        let client = Client::open(format!("redis://{}/", server.address())).unwrap();
        let shared = ecru_tokio::wait(client.get_multiplexed_async_connection()).unwrap().unwrap();
        ecru::scope(|s| {
            for task in 0..20_u32 {
                let mut redis = shared.clone();
                s.spawn(move || {
                    let key = format!("key {task}");
                    for round in 0..20 {
                        let _: () = ecru_tokio::wait(redis.set(&key, round)).unwrap().unwrap();
                        let back: u32 = ecru_tokio::wait(redis.get(&key)).unwrap().unwrap();
                        assert_eq!(back, round);
                    }
                });
            }
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
