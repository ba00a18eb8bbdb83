//! What only an engine with faults shows: crashes, partitions, lost leases.

mod chaos;
mod coordinator;
mod drain;
mod everywhere;
mod features;
mod feeding;
mod keyed;
mod leases;
mod remote;
