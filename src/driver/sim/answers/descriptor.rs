//! Descriptors of any kind.

use super::Answer;
use crate::driver::OwnedDescriptor;
use crate::driver::request::perform::Request;
use crate::driver::request::*;
use crate::driver::sim::{World, unsupported};
use std::io;

impl Answer<Adopt<'_>> for World {
    fn answer(&self, request: Adopt<'_>) -> io::Result<Option<OwnedDescriptor>> {
        self.adopt(request.fd).map(Some)
    }
}

impl Answer<Duplicate<'_>> for World {
    fn answer(&self, request: Duplicate<'_>) -> io::Result<OwnedDescriptor> {
        request.fd.share().ok_or_else(|| unsupported("dup(2) of a descriptor of the kernel"))
    }
}

/// The mode makes no difference, because all waits are the scheduler's.
impl Answer<SetNonblockingMode<'_>> for World {
    fn answer(&self, _: SetNonblockingMode<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// Standard output and standard error are those of the process.
impl Answer<WriteOnce<'_>> for World {
    fn answer(&self, request: WriteOnce<'_>) -> io::Result<usize> {
        request.perform()
    }
}

impl Answer<KindOf<'_>> for World {
    fn answer(&self, request: KindOf<'_>) -> io::Result<FileKind> {
        request.perform()
    }
}

impl Answer<AwaitsStandardStreams> for World {
    fn answer(&self, _: AwaitsStandardStreams) -> io::Result<bool> {
        Ok(false)
    }
}
