//! Shows the rows of `doc/behaviour/fleet.md` about NATS servers that fail at the worst moment:
//! fleets and a server on simulated hosts. The server is a simulated one, too.

mod batches;
mod changes;
mod chaos;
mod confirmations;
mod duplicates;
mod orders;
mod ordinary;
mod partitions;
mod priorities;
mod progress;
mod rates;
mod restarts;
mod schedules;
mod server;
mod settings;
mod settling;
mod support;
