//! Jobs at times that are written as cron expressions, in a time zone.

use std::io;
use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::codec::Wire;
use crate::errors::invalid;
use crate::queue::Queue;
use crate::wall::wall;

impl<T: Wire> Queue<T> {
    /// Sends a job at each of the times of a cron expression, from now on until the scope of the
    /// fleet is cancelled. The times are those of the wall clock in a time zone, by its name in the
    /// IANA database, as `Europe/Berlin` or `UTC`.
    ///
    /// The expression has five fields: minute, hour, day of the month, month, and day of the week.
    /// Each is `*`, a number, a range `1-5`, a list `1,3`, or has a step `*/15`. Months and days of
    /// the week have their English names, too, as `JAN` and `MON`, and 0 and 7 are Sunday. If both
    /// days are given, either is enough. The names `@hourly`, `@daily`, `@weekly`, `@monthly` and
    /// `@yearly` stand for expressions.
    ///
    /// As with [`every`](Queue::every), the schedule is known by its name, which it shares with those
    /// of `every`. If several processes have it, one job is stored at each time, also if they have
    /// called this at different times. A process that calls this again with a name replaces its
    /// schedule. If a new release of a program has another expression, each process has the one of
    /// its own release while they run side by side. The id of a job is the name, `/`, and the time in
    /// milliseconds since 1970.
    ///
    /// # Times that are missed
    /// A time in which no process has the schedule is left out. If the servers do not answer, or the
    /// queue is full, the job is sent when that is over, unless the next time has come meanwhile.
    /// A process that stands still sends the job of one time that it has missed. If others have sent
    /// that job more than two minutes ago, and it is done, it runs a second time.
    ///
    /// # Changes of the clocks
    /// When clocks are put forward, some times do not exist. A job whose minute and hour are numbers
    /// is sent at the first minute after the gap. One with `*` or a step in either of them is not.
    /// When clocks are put back, some times come twice. A job whose minute and hour are numbers is
    /// sent at the first of them, and one with `*` or a step at both.
    ///
    /// The rules of time zones are those of the system, in `/usr/share/zoneinfo`, or else those that
    /// this crate was built with.
    ///
    /// # Errors
    /// Returns `InvalidInput` if the name is empty or longer than 64 bytes, the expression cannot be
    /// read or has no time, or the zone is not known, and `NotConnected` after the end of the fleet.
    /// A job that the servers refuse is left out with a [warning](crate::Fleet::on_warning).
    ///
    /// # Cancellation
    /// This call does not wait.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let chores = Fleet::local(s).queue::<String>("chores").open()?;
    ///         chores.cron("sweep", "0 4 * * *", "Europe/Berlin", "sweep".to_owned())?;
    ///         let error = chores.cron("wax", "0 25 * * *", "UTC", "wax".to_owned()).unwrap_err();
    ///         assert!(error.to_string().contains("0 25 * * *"), "{error}");
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn cron(&self, name: &str, expression: &str, zone: &str, job: T) -> io::Result<()> {
        let times = Times::new(name, expression, zone)?;
        self.repeat(name, job, move |now| times.after(now).unwrap_or(Duration::MAX))
    }
}

/// The times of an expression.
struct Times {
    cron: Cron,
    zone: TimeZone,
}

impl Times {
    fn new(name: &str, expression: &str, zone: &str) -> io::Result<Times> {
        let zone = TimeZone::get(zone).map_err(|error| {
            invalid(format!(
                "the zone {zone:?} of the schedule {name:?} is not known: {error}; use a name of the \
                 IANA database, as Europe/Berlin or UTC"
            ))
        })?;
        let refused = |why: String| {
            invalid(format!(
                "the expression {expression:?} of the schedule {name:?} {why}; it has five fields: \
                 minute, hour, day of the month, month, day of the week"
            ))
        };
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed);
        let cron = parser.build().parse(expression);
        let cron = cron.map_err(|error| refused(format!("cannot be read: {error}")))?;
        let times = Times { cron, zone };
        if times.after(wall()).is_none() {
            return Err(refused("has no time".to_owned()));
        }
        Ok(times)
    }

    /// Returns the first time that is later, both counted from 1970.
    fn after(&self, now: Duration) -> Option<Duration> {
        let now = Timestamp::from_duration(jiff::SignedDuration::try_from(now).ok()?).ok()?;
        let next = self.cron.find_next_occurrence(&now.to_zoned(self.zone.clone()), false).ok()?;
        u64::try_from(next.timestamp().as_second()).ok().map(Duration::from_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the times from one time on, as they are written in the zone.
    fn times(expression: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let times = Times::new("n", expression, zone).unwrap();
        let from: Timestamp = from.parse().unwrap();
        let mut now = Duration::from_secs(from.as_second().try_into().unwrap());
        let mut next = || {
            now = times.after(now).unwrap();
            let time = Timestamp::from_second(now.as_secs().try_into().unwrap()).unwrap();
            time.to_zoned(times.zone.clone()).strftime("%d %H:%M %z").to_string()
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn times_are_those_of_the_zone() {
        let berlin = "Europe/Berlin";
        let winter = times("0 4 * * *", berlin, "2026-01-10T03:00:00Z", 2);
        assert_eq!(winter, ["11 04:00 +0100", "12 04:00 +0100"]);
        let workdays = times("30 8-9 * * MON-FRI", "UTC", "2026-07-03T09:00:00Z", 3);
        assert_eq!(workdays, ["03 09:30 +0000", "06 08:30 +0000", "06 09:30 +0000"]);
        // Either of the two days is enough.
        let days = times("0 0 13 * 5", "UTC", "2026-07-09T00:00:00Z", 3);
        assert_eq!(days, ["10 00:00 +0000", "13 00:00 +0000", "17 00:00 +0000"]);
        assert_eq!(times("@daily", "UTC", "2026-07-09T07:00:00Z", 1), ["10 00:00 +0000"]);
        // The clock may stand within a second.
        let times = Times::new("n", "* * * * *", "UTC").unwrap();
        assert_eq!(times.after(Duration::from_millis(59_999)), Some(Duration::from_secs(60)));
        assert_eq!(times.after(Duration::from_secs(60)), Some(Duration::from_secs(120)));
    }

    #[test]
    fn clocks_are_put_forward() {
        // At 2:00 of the 29th it is 3:00.
        let from = "2026-03-28T00:00:00Z";
        let fixed = times("30 2 * * *", "Europe/Berlin", from, 3);
        assert_eq!(fixed, ["28 02:30 +0100", "29 03:00 +0200", "30 02:30 +0200"]);
        let steps = times("*/30 2 * * *", "Europe/Berlin", "2026-03-28T01:15:00Z", 3);
        assert_eq!(steps, ["28 02:30 +0100", "30 02:00 +0200", "30 02:30 +0200"]);
        let hourly = times("15 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3);
        assert_eq!(hourly, ["29 01:15 +0100", "29 03:15 +0200", "29 04:15 +0200"]);
    }

    #[test]
    fn clocks_are_put_back() {
        // At 3:00 of the 25th it is 2:00.
        let from = "2026-10-24T12:00:00Z";
        let fixed = times("30 2 * * *", "Europe/Berlin", from, 2);
        assert_eq!(fixed, ["25 02:30 +0200", "26 02:30 +0100"]);
        let hourly = times("15 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 4);
        assert_eq!(
            hourly,
            ["25 02:15 +0200", "25 02:15 +0100", "25 03:15 +0100", "25 04:15 +0100"]
        );
    }

    #[test]
    fn what_has_no_time_is_refused() {
        for (expression, zone, text) in [
            ("", "UTC", "cannot be read"),
            ("0 25 * * *", "UTC", "cannot be read"),
            ("0 0 4 * * *", "UTC", "cannot be read"),
            ("0 4 * *", "UTC", "cannot be read"),
            ("0 0 30 2 *", "UTC", "has no time"),
            ("0 4 * * *", "Mars/Base", "is not known"),
        ] {
            let error = Times::new("n", expression, zone).map(drop).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
