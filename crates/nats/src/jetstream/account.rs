//! What an account has stored, and what it may store.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::json;

use super::{JetStream, limit};
use crate::error::Error;

/// What an account has in JetStream, and its limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AccountInfo {
    /// All streams together, and the limits of the account.
    #[serde(flatten)]
    pub total: AccountUsage,
    /// For each number of replicas that has limits of its own, what the streams with that number
    /// use: `R1`, `R3`. If there are any, the limits of [`total`](AccountInfo::total) do not count.
    pub tiers: BTreeMap<String, AccountUsage>,
    /// The domain of the servers, if they have one.
    pub domain: Option<String>,
}

/// What streams and consumers use, and their limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AccountUsage {
    /// The bytes in memory.
    pub memory: u64,
    /// The bytes in files.
    pub storage: u64,
    /// The number of streams.
    pub streams: u64,
    /// The number of consumers.
    pub consumers: u64,
    /// The limits.
    pub limits: AccountLimits,
}

/// The limits of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AccountLimits {
    /// The most bytes in memory. 0 permits none.
    #[serde(deserialize_with = "bytes")]
    pub max_memory: Option<u64>,
    /// The most bytes in files. 0 permits none.
    #[serde(deserialize_with = "bytes")]
    pub max_storage: Option<u64>,
    /// The most streams.
    #[serde(with = "limit")]
    pub max_streams: Option<u64>,
    /// The most consumers.
    #[serde(with = "limit")]
    pub max_consumers: Option<u64>,
    /// Whether each stream must say how many bytes it holds at most.
    pub max_bytes_required: bool,
}

/// Reads a number of bytes: -1 for no limit.
fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(u64::try_from(i64::deserialize(deserializer)?).ok())
}

impl JetStream {
    /// Returns what the connection's account has stored, and its limits.
    ///
    /// # Errors
    /// Returns [`JetStream`](crate::ErrorKind::JetStream), with the code 10039 if JetStream is not
    /// enabled for the account, and the errors of a [request](crate::Request::get).
    ///
    /// # Cancellation
    /// This is a cancellation point.
    ///
    /// # Examples
    /// ```no_run
    /// # fn f(jetstream: &ecru_nats::jetstream::JetStream) -> Result<(), ecru_nats::Error> {
    /// let account = jetstream.account_info()?;
    /// println!("{} bytes in {} streams", account.total.storage, account.total.streams);
    /// # Ok(())
    /// # }
    /// ```
    pub fn account_info(&self) -> Result<AccountInfo, Error> {
        self.ask("INFO", &json!({}), "the account")
    }
}

#[cfg(test)]
mod tests {
    use super::AccountInfo;

    #[test]
    fn limits_of_accounts_and_tiers() {
        let text = r#"{"type":"io.nats.jetstream.api.v1.account_info_response","memory":1,
            "storage":2,"streams":3,"consumers":4,"limits":{"max_memory":-1,"max_storage":0,
            "max_streams":5,"max_consumers":-1,"max_bytes_required":true},
            "tiers":{"R3":{"storage":7,"limits":{"max_storage":9}}},
            "domain":"hub","api":{"total":1,"errors":0}}"#;
        let info: AccountInfo = serde_json::from_str(text).unwrap();
        assert_eq!((info.total.memory, info.total.storage), (1, 2));
        assert_eq!((info.total.streams, info.total.consumers), (3, 4));
        let limits = &info.total.limits;
        assert_eq!((limits.max_memory, limits.max_storage), (None, Some(0)));
        assert_eq!((limits.max_streams, limits.max_consumers), (Some(5), None));
        assert!(limits.max_bytes_required);
        assert_eq!(info.tiers["R3"].limits.max_storage, Some(9));
        assert_eq!(info.domain.as_deref(), Some("hub"));
    }
}
