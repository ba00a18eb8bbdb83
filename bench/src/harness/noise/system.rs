//! The kernel's counters: time of other processes, steal, pressure.

use std::fs;
use std::time::Instant;

use super::Reading;

/// The counters at one moment.
pub(crate) struct Counters {
    at: Instant,
    /// CPU seconds on the watched cores, of every process.
    busy: f64,
    /// Seconds stolen from the watched cores.
    steal: f64,
    /// CPU seconds of this process and of its ended children.
    own: f64,
    /// Seconds in which a thread waited for a core.
    pressure: Option<f64>,
    cores: usize,
}

impl Counters {
    /// Reads the counters of these cores.
    pub(crate) fn now(cores: &[usize]) -> Counters {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let pressure = fs::read_to_string("/proc/pressure/cpu").ok();
        let (busy, steal) = of_cores(&stat, cores);
        Counters {
            at: Instant::now(),
            busy: busy as f64 / ticks,
            steal: steal as f64 / ticks,
            own: own_ticks(&own) as f64 / ticks,
            pressure: pressure.as_deref().and_then(some_seconds),
            cores: cores.len(),
        }
    }
}

/// Returns the reading between two moments. The caller supplies the spin.
pub(crate) fn difference(before: &Counters, after: &Counters, spin: f64) -> Reading {
    let wall = (after.at - before.at).as_secs_f64();
    let share = |(before, after): (f64, f64)| (after - before) / wall.max(1e-9);
    Reading {
        spin,
        wall,
        capacity: wall * after.cores as f64,
        others: ((after.busy - before.busy) - (after.own - before.own)).max(0.0),
        steal: after.steal - before.steal,
        pressure: before.pressure.zip(after.pressure).map(share),
    }
}

/// Returns the ticks of user and system time, and the stolen ticks, of these cores.
fn of_cores(stat: &str, cores: &[usize]) -> (u64, u64) {
    let mut sum = (0, 0);
    for line in stat.lines() {
        let mut words = line.split_whitespace();
        let core = words.next().and_then(|name| name.strip_prefix("cpu")?.parse().ok());
        if core.is_none_or(|core: usize| !cores.contains(&core)) {
            continue;
        }
        // The columns are: user nice system idle iowait irq softirq steal. Guest time is part of
        // user time.
        let columns: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        sum.0 += columns.iter().take(3).sum::<u64>();
        sum.1 += columns.get(7).copied().unwrap_or_default();
    }
    sum
}

/// Returns the ticks of this process and its ended children: fields 14 to 17 of `/proc/self/stat`.
fn own_ticks(stat: &str) -> u64 {
    // The name in parentheses may contain blanks.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = after_name.split_whitespace().skip(11).take(4);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Returns the seconds of the line `some`.
fn some_seconds(pressure: &str) -> Option<f64> {
    let line = pressure.lines().find(|line| line.starts_with("some"))?;
    let total = line.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(total.parse::<f64>().ok()? / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_watched_cores_count() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 5 6 7 8 0 0\n\
                    cpu1 10 20 30 100 50 60 70 80 0 0\ncpu10 1000 0 0 0 0 0 0 0 0 0\nintr 5\n";
        assert_eq!(of_cores(stat, &[0]), (6, 8));
        assert_eq!(of_cores(stat, &[0, 1]), (66, 88));
        assert_eq!(of_cores(stat, &[7]), (0, 0));
    }

    #[test]
    fn own_time_includes_the_children_that_have_ended() {
        let stat = "42 (a (odd) name) S 1 2 3 4 5 6 7 8 9 10 100 20 30 4 20 0 1 0 99";
        assert_eq!(own_ticks(stat), 154);
    }

    #[test]
    fn pressure_is_the_total_of_some() {
        let text = "some avg10=0.04 avg60=0.32 avg300=3.82 total=3500000\nfull avg10=0.00 total=9";
        assert_eq!(some_seconds(text), Some(3.5));
        assert_eq!(some_seconds(""), None);
    }

    #[test]
    fn what_others_used_is_the_rest() {
        let at = Instant::now();
        let counters = |milliseconds, busy, own, pressure| Counters {
            at: at + std::time::Duration::from_millis(milliseconds),
            busy,
            steal: busy / 10.0,
            own,
            pressure: Some(pressure),
            cores: 2,
        };
        let reading = difference(&counters(0, 1.0, 5.0, 0.0), &counters(500, 2.0, 5.75, 0.1), 1e6);
        assert!((reading.wall - 0.5).abs() < 1e-9, "{reading:?}");
        assert!((reading.capacity - 1.0).abs() < 1e-9, "{reading:?}");
        assert!((reading.others - 0.25).abs() < 1e-9, "{reading:?}");
        assert!((reading.steal - 0.1).abs() < 1e-9, "{reading:?}");
        assert!((reading.pressure.unwrap() - 0.2).abs() < 1e-9, "{reading:?}");
    }
}
