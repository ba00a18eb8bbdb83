//! Shows the rows of `doc/behaviour/fleet.md` on a real `nats-server`: those that hold on each
//! engine, and those that need a server.

mod broker;
mod browser;
mod changes;
mod child;
#[path = "../../../nats/tests/behaviour/cluster.rs"]
mod cluster;
mod clusters;
mod logins;
mod priorities_tool;
mod queue_tool;
#[path = "../../../nats/tests/behaviour/server.rs"]
mod server;
mod servers;
mod settings;
mod settling;
mod tool;
mod web;

#[path = "../behaviour/batches.rs"]
mod batches;
#[path = "../behaviour/dead.rs"]
mod dead;
#[path = "../behaviour/functions.rs"]
mod functions;
#[path = "../behaviour/jobs.rs"]
mod jobs;
#[path = "../behaviour/limits.rs"]
mod limits;
#[path = "../behaviour/orders.rs"]
mod orders;
#[path = "../behaviour/priorities.rs"]
mod priorities;
#[path = "../behaviour/progress.rs"]
mod progress;
#[path = "../behaviour/queue.rs"]
mod queue;
