//! A store of results: a bucket, in which the first writer of a key wins.

use std::io;

use bytes::Bytes;
use ecru_nats::jetstream::{Bucket, JetStream};

use super::failure::{failed, repeated};
use super::names::bucket;
use super::{open, watch};
use crate::engine::{EngineResults, ResultsSpec, Watch};

pub(super) struct NatsResults {
    js: JetStream,
    /// The name of the bucket.
    name: String,
    bucket: Bucket,
}

impl NatsResults {
    pub(super) fn open(js: &JetStream, spec: &ResultsSpec) -> io::Result<NatsResults> {
        let stored = open::results(js, spec)?;
        Ok(NatsResults { js: js.clone(), name: bucket(&spec.name), bucket: stored })
    }
}

fn key(run: &str, index: &str) -> String {
    format!("{run}.{index}")
}

impl EngineResults for NatsResults {
    fn put(&self, run: &str, index: &str, value: Bytes) -> io::Result<bool> {
        let stored = self.bucket.create(&key(run, index), value).map_err(failed)?;
        Ok(stored.is_some())
    }

    fn get(&self, run: &str, index: &str) -> io::Result<Option<Bytes>> {
        let key = key(run, index);
        let entry = repeated(|| self.bucket.get(&key))?;
        Ok(entry.map(|entry| entry.value))
    }

    fn remove(&self, run: &str, index: &str) -> io::Result<()> {
        let key = key(run, index);
        if repeated(|| self.bucket.get(&key))?.is_some() {
            self.bucket.delete(&key).map_err(failed)?;
        }
        Ok(())
    }

    fn forget(&self, run: &str, through: u64) -> io::Result<()> {
        let (stream, subject) = (format!("KV_{}", self.name), watch::all_of(&self.name, run));
        self.js.begin_purge(&stream, &subject, through).map_err(failed)
    }

    fn watch(&self, run: &str, index: Option<&str>) -> io::Result<Box<dyn Watch>> {
        match index {
            Some(index) => watch::one(&self.js, &self.name, &self.bucket, run, index),
            None => watch::run(&self.js, &self.name, run),
        }
    }
}
