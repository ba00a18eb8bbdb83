//! The `redis` crate's typed commands over ecru, by a pool, against a server started by the example.

use std::time::Duration;

use ecru::sync::Pool;
use ecru_ecosystem::redis_over_ecru::Redis;
use ecru_ecosystem::servers;
use redis::{Commands, ConnectionLike, RedisError};

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let Some(server) = servers::redis() else { return Ok(()) };
    let address = server.address();
    ecru::run(|| {
        let pool: Pool<Redis, RedisError> = Pool::builder(2)
            .validate(|redis: &mut Redis| redis.is_open())
            .build(move || Redis::connect(address));
        ecru::try_scope(|s| {
            s.spawn(|| {
                // This waits, and parks only this task.
                let (_, word): (String, String) = pool.get()?.blpop("words", 0.0)?;
                println!("one waited and got {word:?}");
                Ok(())
            });
            let mut redis = pool.get()?;
            let _: i64 = redis.rpush("words", "undyed cloth")?;
            println!("another gave");

            let limit = Duration::from_millis(20);
            let waited = ecru::timeout(limit, || redis.blpop::<_, ()>("silence", 0.0));
            println!("and waited for {limit:?}, but: {}", waited.unwrap_err());
            Ok(())
        })
    })
}
