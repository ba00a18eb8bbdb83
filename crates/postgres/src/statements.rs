//! The statements that a client keeps prepared.

use std::collections::HashMap;

use tokio_postgres::Statement;

/// How many statements are kept. A program has few texts of queries, unless it writes values into
/// them.
const LIMIT: usize = 100;

#[derive(Default)]
pub(crate) struct Statements {
    kept: HashMap<Box<str>, Kept>,
    uses: u64,
}

struct Kept {
    statement: Statement,
    last_use: u64,
}

impl Statements {
    pub(crate) fn get(&mut self, query: &str) -> Option<Statement> {
        let kept = self.kept.get_mut(query)?;
        self.uses += 1;
        kept.last_use = self.uses;
        Some(kept.statement.clone())
    }

    /// Keeps a statement, instead of the one that has not been used for longest if there are too
    /// many.
    pub(crate) fn keep(&mut self, query: &str, statement: Statement) {
        if self.kept.len() == LIMIT {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.last_use);
            if let Some(query) = oldest.map(|(query, _)| query.clone()) {
                self.kept.remove(&query);
            }
        }
        self.uses += 1;
        self.kept.insert(query.into(), Kept { statement, last_use: self.uses });
    }

    pub(crate) fn clear(&mut self) {
        self.kept.clear();
    }
}
