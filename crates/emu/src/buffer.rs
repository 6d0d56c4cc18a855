//! Buffers for datagrams that go back to their pool when dropped, wherever in
//! the link that happens.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// Buffers kept for reuse; more are given back to the allocator.
const KEPT_MAX: usize = 16_384;

/// Buffers longer than this are not kept, so that the pool of a link that once
/// carried jumbo datagrams stays small.
const KEPT_BYTES_MAX: usize = 4096;

/// Where buffers come from and go to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    free: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl Pool {
    /// A buffer that holds a copy of `bytes`.
    pub(crate) fn copy(&self, bytes: &[u8]) -> Buffer {
        let mut buffer = self.free.borrow_mut().pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        Buffer {
            bytes: buffer,
            pool: self.clone(),
        }
    }
}

/// The bytes of one datagram.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    pool: Pool,
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        self.pool.copy(&self.bytes)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut free = self.pool.free.borrow_mut();
        if free.len() < KEPT_MAX && self.bytes.capacity() <= KEPT_BYTES_MAX {
            free.push(core::mem::take(&mut self.bytes));
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_used_again() {
        let pool = Pool::default();
        let first = pool.copy(b"first");
        let address = first.as_ptr();
        drop(first);
        let second = pool.copy(b"2nd");
        assert_eq!(&*second, b"2nd");
        assert_eq!(second.as_ptr(), address);
        let copy = second.clone();
        assert_eq!(&*copy, b"2nd");
        assert_ne!(copy.as_ptr(), address);
    }

    #[test]
    fn long_buffers_are_not_kept() {
        let pool = Pool::default();
        drop(pool.copy(&[0; 60_000]));
        assert!(pool.free.borrow().is_empty());
    }
}
