//! The `redis` crate's commands over ecru, on two connections at once, against a server started by
//! the example.

use std::time::Duration;

use ecru_ecosystem::redis_over_ecru::Redis;
use ecru_ecosystem::servers;
use redis::{RedisResult, cmd};

fn main() -> RedisResult<()> {
    let Some(server) = servers::redis() else { return Ok(()) };
    ecru::run(|| {
        ecru::try_scope(|s| {
            s.spawn(|| {
                let mut redis = Redis::connect(server.address())?;
                // This waits, and parks only this task.
                let (_, word): (String, String) = redis.query(cmd("BLPOP").arg("words").arg(0))?;
                println!("one waited and got {word:?}");
                Ok(())
            });
            let mut redis = Redis::connect(server.address())?;
            let _: i64 = redis.query(cmd("RPUSH").arg("words").arg("undyed cloth"))?;
            println!("another gave");

            let limit = Duration::from_millis(20);
            let waited =
                ecru::timeout(limit, || redis.query::<()>(cmd("BLPOP").arg("silence").arg(0)));
            println!("and waited for {limit:?}, but: {}", waited.unwrap_err());
            Ok(())
        })
    })
}
