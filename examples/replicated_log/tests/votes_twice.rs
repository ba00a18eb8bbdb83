//! A node with a fault, so that the test of the others is known to find one: it votes for each
//! candidate of a term.
//!
//! The node is compiled once more, with another module `message`.

mod common;
#[path = "../src/journal.rs"]
mod journal;
#[expect(unreachable_pub, reason = "the example's library exports it")]
mod message;
#[path = "../src/node.rs"]
#[expect(unreachable_pub, reason = "the example's library exports it")]
mod node;

use ecru::sim::{self, Explore, Strategy};

#[test]
fn a_node_that_votes_twice_is_found_slow() {
    let plan = Explore::Seeds { seeds: 0..300, strategy: Strategy::Random };
    let found = sim::explore(plan, || common::program(node::run));
    let found = found.expect_err("two leaders of one term overwrite each other's entries");
    println!("{found}");
}
