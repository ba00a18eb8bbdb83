//! The noise gate, which detects whether something else disturbed a round.
//!
//! Four signs are read around each child process. Any one of them makes its round disturbed.
//!
//! | sign | read from | disturbed when |
//! |---|---|---|
//! | the speed of the cores | a fixed amount of work, timed before and after the child on its cores | more than 10% slower than for another contender of the round |
//! | other processes | `/proc/stat` less the child's own time | more than 4% of the time of the cores, and 20 ms |
//! | the hypervisor | the steal column of `/proc/stat` | more than 2% of the time of the cores, and 10 ms |
//! | waiting for a core | `/proc/pressure/cpu`, where it exists | a share of the time 5 points above the contender's least, while other processes run for as long |
//!
//! The machine may run slower for minutes. A round that is slow as a whole compares its contenders as
//! well as a fast one, so it counts, but not for goals that are times. The number of such rounds is
//! reported.
//!
//! The pressure is that of the whole machine and includes the contender's own threads. It is
//! therefore compared only with the same contender in other rounds, and counts only as far as other
//! processes can have caused it. A runtime whose threads wake each other makes them wait, too.

mod gate;
mod spin;
mod system;

pub(crate) use gate::{Gate, Reading};
pub(crate) use spin::spin_on;
pub(crate) use system::{Counters, difference};
