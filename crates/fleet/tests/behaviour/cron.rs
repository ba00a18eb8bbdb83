//! Jobs at times of the day, over days of virtual time.

use std::io;
use std::time::Duration;

use ecru::sim::Simulation;
use ecru_fleet::{Fleet, Job, Queue};

const HOUR: Duration = Duration::from_secs(3600);

/// A simulation begins with the year 1970.
const APRIL_24: Duration = Duration::from_secs(113 * 24 * 3600);
const OCTOBER_24: Duration = Duration::from_secs(296 * 24 * 3600);

/// Runs `body` in two simulations that may take most of a year.
fn days(body: impl Fn(&Fleet<'_>) -> io::Result<()> + Send + Sync) {
    for seed in 0..2 {
        let simulation = Simulation::new(seed).max_time(365 * 24 * HOUR);
        let report = simulation.run(|| ecru::scope(|s| body(&Fleet::local(s))).unwrap());
        report.result.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

fn open(fleet: &Fleet<'_>, name: &str) -> io::Result<Queue<u32>> {
    // Without a job, a long lease makes no work.
    fleet.queue(name).lease(24 * HOUR).open()
}

/// Returns the day, the hour and the minute of a job's time.
fn time(job: &Job<u32>) -> (u64, u64, u64) {
    let (_, time) = job.id().as_str().rsplit_once('/').unwrap();
    let minutes = time.parse::<u64>().unwrap() / 60_000;
    (minutes / 60 / 24, minutes / 60 % 24, minutes % 60)
}

fn times(queue: &Queue<u32>, count: usize) -> io::Result<Vec<(u64, u64, u64)>> {
    let jobs = queue.jobs(1)?;
    let mut times = Vec::new();
    while times.len() < count {
        let job = jobs.recv()?;
        assert_eq!(job.attempt(), 1);
        times.push(time(&job));
        let due = ecru::sim::elapsed().as_secs() / 60;
        let (day, hour, minute) = times[times.len() - 1];
        assert_eq!(due, (day * 24 + hour) * 60 + minute, "it comes when it is due");
        job.done()?;
    }
    Ok(times)
}

/// - given: the days in which the clocks of New York are put forward, in 1970
/// - when: a job is sent at 2:30, which one of the days does not have, and another one at each
///   quarter past an hour
/// - then: the former is sent once a day, on that day at the first minute after the gap, and the
///   latter once in each hour that there is
#[test]
fn fleet_150_clocks_are_put_forward_slow() {
    days(|fleet| {
        ecru::sleep(APRIL_24)?;
        let (nightly, hourly) = (open(fleet, "nightly")?, open(fleet, "hourly")?);
        nightly.cron("n", "30 2 * * *", "America/New_York", 0)?;
        let nights = times(&nightly, 4)?;
        // The time of New York is five hours behind, and four from the 26th of April on.
        assert_eq!(nights, [(113, 7, 30), (114, 7, 30), (115, 7, 0), (116, 6, 30)]);
        hourly.cron("h", "15 * * * *", "America/New_York", 0)?;
        assert_eq!(times(&hourly, 2)?, [(116, 7, 15), (116, 8, 15)]);
        Ok(())
    });
}

/// - given: the days in which the clocks of New York are put back, in 1970
/// - when: a job is sent at 1:30, which one of the days has twice, and another one at each quarter
///   past an hour
/// - then: the former is sent once a day, and the latter at both times
#[test]
fn fleet_151_clocks_are_put_back_slow() {
    days(|fleet| {
        ecru::sleep(OCTOBER_24)?;
        let (nightly, hourly) = (open(fleet, "nightly")?, open(fleet, "hourly")?);
        nightly.cron("n", "30 1 * * *", "America/New_York", 0)?;
        let hours = fleet_hours(&hourly, &nightly)?;
        // At 6:00 of the 297th day it is 1:00 in New York, for the second time.
        assert_eq!(hours.0, [(297, 4, 15), (297, 5, 15), (297, 6, 15), (297, 7, 15)]);
        assert_eq!(hours.1, [(296, 5, 30), (297, 5, 30), (298, 6, 30)]);
        Ok(())
    });
}

type Times = Vec<(u64, u64, u64)>;

/// Returns the times of an hourly job around the change, and those of the nightly one.
fn fleet_hours(hourly: &Queue<u32>, nightly: &Queue<u32>) -> io::Result<(Times, Times)> {
    ecru::scope(|s| {
        let hours = s.spawn(|| {
            ecru::sleep(28 * HOUR)?;
            hourly.cron("h", "15 * * * *", "America/New_York", 0)?;
            times(hourly, 4)
        });
        let nights = times(nightly, 3)?;
        Ok((hours.join().unwrap()?, nights))
    })
}

/// - given: a process with a schedule, which ends for some hours and then starts again
/// - when: the schedule's times come
/// - then: each has one job, except those in which no process had the schedule
#[test]
fn fleet_152_missed_times_are_left_out_slow() {
    days(|fleet| {
        let queue = open(fleet, "n")?;
        queue.cron("h", "0 * * * *", "UTC", 0)?;
        assert_eq!(times(&queue, 2)?, [(0, 1, 0), (0, 2, 0)]);
        // Nothing is sent by a schedule whose next time is far away.
        queue.cron("h", "0 0 1 1 *", "UTC", 0)?;
        ecru::sleep(5 * HOUR)?;
        queue.cron("h", "0 * * * *", "UTC", 0)?;
        assert_eq!(times(&queue, 2)?, [(0, 8, 0), (0, 9, 0)]);
        Ok(())
    });
}
