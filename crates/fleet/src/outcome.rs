//! The results of calls, and their names.

use std::io;

use serde::{Deserialize, Serialize};

use crate::engine;
use crate::errors::CallError;
use crate::id::{JobId, unique};

/// What has become of a call, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome<R> {
    Ok(R),
    Failed { reason: String, attempts: u32 },
}

impl<R> Outcome<R> {
    pub(crate) fn into_result(self) -> Result<R, CallError> {
        match self {
            Outcome::Ok(result) => Ok(result),
            Outcome::Failed { reason, attempts } => Err(CallError::Failed { reason, attempts }),
        }
    }
}

/// The name of a result: two tokens. The first letter of a run says what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) run: String,
    pub(crate) index: String,
}

/// The run of all calls with a key.
const KEYED: &str = "k";

impl Name {
    /// Returns the name of a run of single calls, different each time.
    pub(crate) fn calls() -> String {
        format!("c-{}", unique())
    }

    /// Returns the name of a call with a key.
    pub(crate) fn keyed(key: &str) -> io::Result<Name> {
        let name = Name { run: KEYED.to_owned(), index: engine::token("key", key)? };
        name.check("key", key)
    }

    /// Returns the name of the run of a map.
    pub(crate) fn mapped(run: &str) -> io::Result<String> {
        let token = engine::token("name of a run", run)?;
        let index = u64::MAX.to_string();
        let name = Name { run: format!("m-{token}"), index };
        Ok(name.check("name of a run", run)?.run)
    }

    /// Fails if the name is too long for a job's id.
    fn check(self, what: &str, text: &str) -> io::Result<Name> {
        if engine::token(what, &self.text()).is_err() {
            return Err(crate::errors::invalid(format!(
                "the {what} {text:?} is too long; shorten it to 60 bytes or fewer"
            )));
        }
        Ok(self)
    }

    /// Returns whether only the caller that has sent the call knows its name.
    pub(crate) fn is_single(&self) -> bool {
        self.run.starts_with("c-")
    }

    fn text(&self) -> String {
        format!("{}/{}", self.run, self.index)
    }

    /// Returns the id of the job.
    pub(crate) fn id(&self) -> JobId {
        JobId::from_key(&self.text()).expect("it was checked when the name was made")
    }

    /// Returns the name of the job that an engine calls `token`.
    pub(crate) fn of_token(token: &str) -> Option<Name> {
        let text = engine::text(token)?;
        let (run, index) = text.split_once('/')?;
        Some(Name { run: run.to_owned(), index: index.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_reversible() {
        for key in ["a", "a/b", "ä=.*", "k/m-"] {
            let name = Name::keyed(key).unwrap();
            assert_eq!(Name::of_token(&name.id().token()), Some(name));
        }
        let run = Name::mapped("night ä").unwrap();
        let name = Name { run, index: "7".to_owned() };
        assert_eq!(Name::of_token(&name.id().token()), Some(name));
        assert_eq!(Name::of_token("no-slash"), None);
        for long in ["x".repeat(600), "/".repeat(200)] {
            assert!(Name::keyed(&long).unwrap_err().to_string().contains("too long"));
            assert!(Name::mapped(&long).unwrap_err().to_string().contains("too long"));
        }
    }
}
