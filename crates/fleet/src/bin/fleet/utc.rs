//! Reads the times that servers write: `2026-11-23T22:02:22.388862049Z`.

use std::time::{Duration, SystemTime};

/// Returns a time in the form of RFC 3339, in UTC, or `None` if it is malformed or before 1970.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [hour, minute, second] = numbers(time, ':')?;
    let in_range = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !in_range || fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let nanoseconds: u32 = format!("{fraction:0<9}").parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator).map(|part| part.parse().ok());
    let three = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(three)
}

/// Returns the days from 1970 to a date. The year begins in March here, so that the day that leap
/// years add is the last one.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap = year / 4 - year / 100 + year / 400;
    // 719,468 days are between the 1st of March of the year 0 and 1970.
    year * 365 + leap + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(text: &str) -> Option<u128> {
        Some(parse(text)?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis())
    }

    #[test]
    fn times_are_read() {
        assert_eq!(milliseconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(milliseconds("2000-02-29T12:00:00.5Z"), Some(951_825_600_500));
        assert_eq!(milliseconds("2026-11-23T22:02:22.388862049Z"), Some(1_795_471_342_388));
        for bad in ["", "2026-11-23", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00+01:00"] {
            assert_eq!(milliseconds(bad), None, "{bad}");
        }
        // What servers write for "never".
        assert_eq!(milliseconds("0001-01-01T00:00:00Z"), None);
    }
}
