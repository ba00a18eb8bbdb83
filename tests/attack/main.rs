//! Attacks by hostile but safe code: calls at the worst moment or on the wrong thread, and
//! destructors that break the rules. Each of these once was, or could become, a hang, a double drop
//! or a use of freed memory.

#![cfg_attr(ecru_baton, allow(unused, reason = "helpers of tests that this backend leaves out"))]

#[path = "../common/mod.rs"]
mod common;
mod coroutines;
mod daemons;
mod forced_ends;
#[cfg(not(ecru_baton))]
mod fresh;
#[cfg(not(ecru_baton))]
mod futures;
#[cfg(not(ecru_baton))]
mod initializers;
mod lent_yielders;
mod placement;
mod requests;
mod scoped_coroutines;
mod scopes_and_runs;
mod second_round;
mod simulation;
mod spawn_when;
mod strangers;
mod turns;
mod unwinding;

use common::{HOUR, OnDrop, run_on};
