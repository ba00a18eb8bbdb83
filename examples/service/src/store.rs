//! Notes and sessions, in PostgreSQL. This is code in direct style.

use std::io;

use ecru::sync::Pool;
use ecru_postgres::tokio_postgres::Config;
use ecru_postgres::{Client, Connector, Error};

use crate::board::Note;

const TABLES: &str = include_str!("tables.sql");

/// The database.
#[derive(Debug)]
pub(crate) struct Store {
    pool: Pool<Client, Error>,
}

impl Store {
    /// Opens a database, and creates the tables that it lacks.
    pub(crate) fn open(database: Config) -> io::Result<Store> {
        let pool = Connector::new(database).pool(16);
        pool.get()?.batch_execute(TABLES)?;
        Ok(Store { pool })
    }

    /// Begins a session. Returns its secret.
    pub(crate) fn begin_session(&self, name: &str) -> io::Result<String> {
        // A real service takes its secrets from the system's randomness.
        let secret = format!("{:032x}", fastrand::u128(..));
        let mut client = self.pool.get()?;
        let insert = client.prepare_cached("INSERT INTO sessions VALUES ($1, $2)")?;
        client.execute(&insert, &[&secret, &name])?;
        Ok(secret)
    }

    pub(crate) fn user_of(&self, secret: &str) -> io::Result<Option<String>> {
        let mut client = self.pool.get()?;
        let find = client.prepare_cached("SELECT name FROM sessions WHERE secret = $1")?;
        Ok(client.query_opt(&find, &[&secret])?.map(|row| row.get(0)))
    }

    /// Returns the last hundred notes, the newest one last.
    pub(crate) fn notes(&self) -> io::Result<Vec<Note>> {
        let mut client = self.pool.get()?;
        let last = "SELECT author, text FROM notes ORDER BY number DESC LIMIT 100";
        let last = client.prepare_cached(last)?;
        let rows = client.query(&last, &[])?;
        let notes = rows.iter().rev().map(|row| Note { author: row.get(0), text: row.get(1) });
        Ok(notes.collect())
    }

    pub(crate) fn add(&self, note: &Note) -> io::Result<()> {
        let mut client = self.pool.get()?;
        let insert = client.prepare_cached("INSERT INTO notes (author, text) VALUES ($1, $2)")?;
        client.execute(&insert, &[&note.author, &note.text])?;
        Ok(())
    }
}
