//! Jobs at times that are written as cron expressions, in a time zone.

use std::io;
use std::time::Duration;

use cronexpr::Crontab;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use crate::codec::Wire;
use crate::errors::invalid;
use crate::queue::Queue;
use crate::schedule::Plan;
use crate::wall::wall;

impl<T: Wire> Queue<T> {
    /// Sends a job at each of the times of a cron expression, from now on until the scope of the
    /// fleet is cancelled. The times are those of the wall clock in a time zone, by its name in the
    /// IANA database, as `Europe/Berlin` or `UTC`.
    ///
    /// The expression has five fields: minute, hour, day of the month, month, and day of the week.
    /// Each is `*`, a number, a range `1-5`, a list `1,3`, or has a step `*/15`. Months and days of
    /// the week have their English names, too, as `JAN` and `MON`, and 0 and 7 are Sunday. If both
    /// days are given, either is enough.
    ///
    /// As with [`every`](Queue::every), the schedule is known by its name, which it shares with
    /// those of `every`. If several processes have it, one job is stored at each time, also if they
    /// have called this at different times. The last call with a name replaces the schedule of that
    /// name in the whole fleet. The id of a job is the name, `/`,
    /// and the time in milliseconds since 1970.
    ///
    /// # Times that are missed
    /// A time in which no process has the schedule is left out. If the servers do not answer, or
    /// the queue is full, the job is sent when that is over, unless the next time has come
    /// meanwhile. A process that stands still sends the job of one time that it has missed. If
    /// others have sent that job more than two minutes ago, and it is done, it runs a second time.
    ///
    /// # Changes of the clocks
    /// When clocks are put forward, some times do not exist. A job whose minute and hour are
    /// numbers is sent at the first minute after the gap. One with `*` or a step in either of them
    /// is not. When clocks are put back, some times come twice. A job whose minute and hour are
    /// numbers is sent at the first of them, and one with `*` or a step at both.
    ///
    /// The rules of time zones are those of the system, in `/usr/share/zoneinfo`, or else those
    /// that this crate was built with.
    ///
    /// # Errors
    /// Returns `InvalidInput` if the name is empty or longer than 64 bytes, the expression cannot
    /// be read or has no time in four years, or the zone is not known, and `NotConnected` after the
    /// end of the fleet. A job that the servers refuse is left out with a
    /// [warning](crate::Fleet::on_warning).
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
        Times::new(name, expression, zone)?;
        let plan = Plan::Cron { expression: expression.to_owned(), zone: zone.to_owned() };
        self.repeat(name, plan, job)
    }
}

/// How far clocks are put back, at most. None was ever put back by more than two hours.
const PUT_BACK: SignedDuration = SignedDuration::from_hours(3);

/// The times of an expression.
pub(crate) struct Times {
    /// Reads times as those of the zone, or as those of UTC if each is to be sent once.
    cron: Crontab,
    zone: TimeZone,
    is_once: bool,
}

impl Times {
    pub(crate) fn new(name: &str, expression: &str, zone: &str) -> io::Result<Times> {
        let found = TimeZone::get(zone).map_err(|error| {
            invalid(format!(
                "the zone {zone:?} of the schedule {name:?} is not known: {error}; use a name of the \
                 IANA database, as Europe/Berlin or UTC"
            ))
        })?;
        let refused = |why: &str| {
            invalid(format!(
                "the expression {expression:?} of the schedule {name:?} {why}; it has five fields: \
                 minute, hour, day of the month, month, day of the week"
            ))
        };
        let fields: Vec<&str> = expression.split_ascii_whitespace().collect();
        let &[minute, hour, _, _, _] = &*fields else {
            return Err(refused(&format!("has {} fields", fields.len())));
        };
        let is_once = !minute.contains(['*', '/']) && !hour.contains(['*', '/']);
        let zone_of_times = if is_once { "UTC" } else { zone };
        let cron = cronexpr::parse_crontab(&format!("{} {zone_of_times}", fields.join(" ")));
        let cron = cron.map_err(|error| {
            // The expression stands before it, with a mark below.
            let text = error.to_string();
            let why = text.rsplit("^ ").next().unwrap_or_default();
            refused(&format!("cannot be read: {why}"))
        })?;
        let times = Times { cron, zone: found, is_once };
        if times.after(wall()).is_none() {
            return Err(refused("has no time in the next four years"));
        }
        Ok(times)
    }

    /// Returns the first time that is later, both counted from 1970.
    pub(crate) fn after(&self, now: Duration) -> Option<Duration> {
        let now = Timestamp::from_duration(SignedDuration::try_from(now).ok()?).ok()?;
        let next = match self.is_once {
            true => self.first_after(now)?,
            false => self.cron.find_next(now).ok()?.timestamp(),
        };
        u64::try_from(next.as_second()).ok().map(Duration::from_secs)
    }

    /// Returns the first time that is later, where each time of the calendar is one moment.
    fn first_after(&self, now: Timestamp) -> Option<Timestamp> {
        let utc = |time: DateTime| TimeZone::UTC.to_timestamp(time).ok();
        // Some of the times after this one are before it on the clock.
        let mut from = utc(self.zone.to_datetime(now))?.checked_sub(PUT_BACK).ok()?;
        loop {
            let time = self.cron.find_next(from).ok()?.datetime();
            let moment = self.moment(time)?;
            if moment > now {
                return Some(moment);
            }
            from = utc(time)?;
        }
    }

    /// Returns when a time of the calendar is: the first of two moments, or the end of the gap in
    /// which there is none.
    fn moment(&self, time: DateTime) -> Option<Timestamp> {
        let moments = self.zone.to_ambiguous_timestamp(time);
        let is_gap = matches!(moments.offset(), AmbiguousOffset::Gap { .. });
        let first = moments.earlier().ok()?;
        match is_gap {
            true => self.zone.following(first).next().map(|change| change.timestamp()),
            false => Some(first),
        }
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
        // Each of them would be at 3:00.
        let several = times("0,20,40 2 * * *", "Europe/Berlin", "2026-03-29T00:50:00Z", 2);
        assert_eq!(several, ["29 03:00 +0200", "30 02:00 +0200"]);
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
        // In the second half of the hour that comes twice, the next one is on the next day.
        let late = times("30,50 2 * * *", "Europe/Berlin", "2026-10-25T00:40:00Z", 2);
        assert_eq!(late, ["25 02:50 +0200", "26 02:30 +0100"]);
        let hourly = times("15 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 4);
        assert_eq!(
            hourly,
            ["25 02:15 +0200", "25 02:15 +0100", "25 03:15 +0100", "25 04:15 +0100"]
        );
    }

    #[test]
    fn what_has_no_time_is_refused() {
        for (expression, zone, text) in [
            ("", "UTC", "has 0 fields"),
            ("0 25 * * *", "UTC", "0..=23; found 25"),
            ("0 0 4 * * *", "UTC", "has 6 fields"),
            ("0 4 * *", "UTC", "has 4 fields"),
            ("0 x * * *", "UTC", "cannot be read"),
            ("0 0 30 2 *", "UTC", "has no time"),
            ("0 4 * * *", "Mars/Base", "is not known"),
        ] {
            let error = Times::new("n", expression, zone).map(drop).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
