//! Numbers and names for people.

use std::time::Duration;

/// Returns a name from a server, with control characters escaped, because they could rule a
/// terminal.
pub(crate) fn plain(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// Returns a number of bytes with a unit.
pub(crate) fn bytes(count: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = "bytes";
    for next in units {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    // Without a digit after the point if there is nothing to say with it.
    if value.fract() < 0.05 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// Returns a time in its two largest units.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        1..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        assert_eq!((bytes(7), bytes(1 << 20)), ("7 bytes".into(), "1 MiB".into()));
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(time(Duration::from_micros(1500)), "1.5 ms");
        assert_eq!(time(Duration::from_secs(90)), "1 min 30 s");
        assert_eq!(time(Duration::from_secs(90_000)), "1 d 1 h");
        assert_eq!(plain("n1\u{1b}[2J"), "n1\\u{1b}[2J");
    }
}
