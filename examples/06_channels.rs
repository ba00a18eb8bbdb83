//! Workers take jobs from one channel and put results into another. One loop waits for the results,
//! a clock and a request to stop.

use std::time::Duration;

use ecru::channel;

fn main() {
    ecru::run(|| {
        let (jobs, todo) = channel::bounded::<u64>(4);
        let (results, done) = channel::unbounded();
        ecru::scope(|s| {
            // Each job goes to one of the workers. They end when the channel is disconnected.
            for worker in 1..=3 {
                let (todo, results) = (todo.clone(), results.clone());
                s.spawn(move || {
                    for job in todo {
                        if ecru::sleep(Duration::from_millis(5 * job)).is_err() {
                            return;
                        }
                        let _ = results.send((worker, job, job * job));
                    }
                });
            }
            drop(results);
            s.spawn(move || {
                for job in 1..=9 {
                    // Waits while four jobs are in the channel.
                    jobs.send(job).expect("there are workers");
                }
            });

            let ticks = channel::tick(Duration::from_millis(20));
            let too_long = channel::after(Duration::from_secs(10));
            let mut sum = 0;
            loop {
                ecru::select! {
                    recv(done) -> result => match result {
                        Ok((worker, job, square)) => {
                            println!("worker {worker}: {job} x {job} = {square}");
                            sum += square;
                        }
                        Err(_) => break,
                    },
                    recv(ticks) -> _ => println!("..."),
                    recv(too_long) -> _ => panic!("ten seconds are enough for this"),
                }
            }
            println!("sum: {sum}");
            assert_eq!(sum, 285);
        });
    });
}
