//! The pools behind [`Stack::new`]: one for each stack size in use, shared by the whole process.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, Weak};

use super::geometry::{Geometry, page_size};
use super::pool::Pool;
use super::{STACK_DEFAULT, Stack, StackPool};

/// The pools by stack size. A pool ends with its last stack, except the default pool, which is
/// kept.
#[derive(Default)]
struct Pools {
    default: Option<StackPool>,
    others: BTreeMap<usize, Weak<Pool>>,
}

static POOLS: Mutex<Pools> = Mutex::new(Pools { default: None, others: BTreeMap::new() });

/// Takes a stack of at least `size` usable bytes.
pub(super) fn take(size: usize) -> io::Result<Stack> {
    pool(size)?.take()
}

#[cfg(feature = "sim")]
impl StackPool {
    /// Returns the pool of the whole process for stacks of this size.
    ///
    /// # Errors
    /// Fails as [`new`](StackPool::new) does.
    pub(crate) fn of_process(size: usize) -> io::Result<StackPool> {
        pool(size)
    }
}

/// Returns the pool of stacks with at least `size` usable bytes.
fn pool(size: usize) -> io::Result<StackPool> {
    // Invalid sizes are reported before they are rounded.
    Geometry::new(size)?;
    let size = size.next_multiple_of(page_size());
    let mut pools = POOLS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if size == STACK_DEFAULT {
        if let Some(pool) = &pools.default {
            return Ok(pool.clone());
        }
        let pool = StackPool::new(size)?;
        pools.default = Some(pool.clone());
        return Ok(pool);
    }
    if let Some(pool) = pools.others.get(&size).and_then(Weak::upgrade) {
        return Ok(StackPool::from_shared(pool));
    }
    pools.others.retain(|_, pool| pool.strong_count() > 0);
    let pool = StackPool::new(size)?;
    pools.others.insert(size, pool.downgrade());
    Ok(pool)
}
