//! On which servers a stream or a consumer is.

use std::time::Duration;

use serde::Deserialize;

use super::nanoseconds;

/// The servers of a cluster that have a stream or a consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ClusterInfo {
    /// The name of the cluster.
    pub name: String,
    /// The name of the leader, through which everything goes. Empty if there is none at the moment:
    /// then nothing can be stored.
    pub leader: String,
    /// The other servers.
    pub replicas: Vec<ReplicaInfo>,
}

/// A server that has a copy and is not the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ReplicaInfo {
    /// The name of the server.
    pub name: String,
    /// Whether its copy is complete.
    pub current: bool,
    /// Whether the cluster takes it for stopped.
    pub offline: bool,
    /// How long ago the leader heard of it.
    #[serde(with = "nanoseconds")]
    pub active: Option<Duration>,
    /// How many changes it has not made.
    pub lag: u64,
}
